"""How often the embedded extractive model quotes a right sentence, and how often it says Unknown.

    python benchmarks/extractive_nq.py --data ../shared/data [--sample 800] [--fit]

NQ-open's gold passages are split by question and SQuAD 2.0 by article, both with a seed, into three: MiniLM's
adapter is trained on one (`extractive_train.py`), the weights are fitted on another, and the rest, a quarter, is
reported. A sample of that is measured: NQ-open with each question's gold passage, with the passage without its
answer that BM25 finds first, and with another question's passage; SQuAD 2.0 with its questions that the passage
answers, and those that it does not answer. `--fit` prints the weights. The weights of words alone are fitted on the
first two parts, QED and DPR's passages, without the questions of NQ-open.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import bm25s
import numpy as np
from scipy.optimize import minimize

from ragweave.tools.models.extractive import Features, asked_of, best_evidence, features_of, sentences_of, weighted
from ragweave.tools.models.messages import TaskPassage
from ragweave.tools.text.words import normalize_answer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULT = ROOT / "benchmarks" / "results" / "extractive_nq.json"
SEED = 13
WORDS = ("cover", "cover_with_previous", "title", "early", "length", "by")
KINDS = ("number", "date", "who", "where", "")
RANK = [*WORDS, *(f"has:{kind}" for kind in KINDS), *(f"near:{kind}" for kind in ("number", "date", "where"))]
SUPPORT = {"lexical": ["one", "missing", "negation", "cover"], "minilm": ["one", "negation", "read", "cosine", "full"]}
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.65, 0.7)


class Row(NamedTuple):
    """A question, its passages and its answers; none: it has no answer there."""

    question: str
    passages: list[TaskPassage]
    answers: list[str]
    weight: float = 1.0


def passage(title: str, text: str) -> TaskPassage:
    return {"id": "", "title": title.strip('"').replace("_", " "), "text": text}


def lines(name: str) -> list[dict[str, Any]]:
    with gzip.open(name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def loaded(name: str) -> Any:
    with gzip.open(name, "rt", encoding="utf-8") as file:
        return json.load(file)


class Split(NamedTuple):
    """Rows that train the adapter, those that the weights are fitted on, and those that are reported."""

    trained: list[Row]
    fitted: list[Row]
    reported: list[Row]


def split(groups: Sequence[Sequence[Row]]) -> Split:
    """Split groups of rows; one group is in one part."""
    order = list(range(len(groups)))
    random.Random(SEED).shuffle(order)
    bounds = (0, len(order) * 5 // 8, len(order) * 3 // 4, len(order))
    first, second, third = (
        [row for at in sorted(order[start:end]) for row in groups[at]] for start, end in pairwise(bounds)
    )
    return Split(first, second, third)


def nq() -> Split:
    questions = lines("nq/nq-open-oracle.jsonl.gz")
    return split(
        [
            [Row(row["question"], [passage(row["ctxs"][0]["title"], row["ctxs"][0]["text"])], row["answers"])]
            for row in questions
        ]
    )


def squad() -> Split:
    def rows(article: Any) -> Iterator[Row]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                answers = [] if question["is_impossible"] else [answer["text"] for answer in question["answers"]]
                yield Row(question["question"], [passage(article["title"], paragraph["context"])], answers, 0.3)

    return split([list(rows(article)) for article in loaded("abstain/squad2-dev-sample.json.gz")["data"]])


def more(known: Iterable[Row]) -> list[Row]:
    """Return the questions of QED and of DPR's passages that are not among the known ones."""
    asked = {normalize_answer(row.question) for row in known}
    rows = [
        Row(row["question"], [passage(row["ctx"]["title"], row["ctx"]["text"])], row["answers"])
        for row in lines("nq/dpr-one-passage.jsonl.gz")
    ]
    for row in lines("filter/qed-dev.jsonl.gz"):
        answers = [part["string"] for given in row["original_nq_answers"] for part in given]
        rows.append(Row(row["question_text"], [passage(row["title_text"], row["paragraph_text"])], answers))
    return [row for row in rows if normalize_answer(row.question) not in asked]


def holds(text: str, answers: Iterable[str]) -> bool:
    padded = f" {normalize_answer(text)} "
    return any(f" {wanted} " in padded for answer in answers if (wanted := normalize_answer(answer)))


def share(part: int, of: int) -> float:
    return round(100 * part / of, 1)


def measure(rows: Sequence[Row], *, encoder: bool) -> dict[str, Any]:
    """Return shares in percent: of right sentences, and of Unknown at each threshold."""
    quotes = [best_evidence(row.question, row.passages, encoder=encoder)[:1] for row in rows]
    support = [quote[0].support if quote else 0.0 for quote in quotes]
    right = [bool(quote) and holds(quote[0].text, row.answers) for row, quote in zip(rows, quotes, strict=True)]
    scores: dict[str, Any] = {"questions": len(rows)}
    if any(row.answers for row in rows):
        first = [sentences_of(asked_of(row.question), row.passages[0])[:1] for row in rows]
        starts = [any(holds(text, row.answers) for text in texts) for row, texts in zip(rows, first, strict=True)]
        scores |= {
            "first_sentence_right": share(sum(starts), len(rows)),
            "sentence_right": share(sum(right), len(rows)),
        }
        pairs = [*zip(right, support, strict=True)]
        quoted = {t: [ok for ok, value in pairs if value >= t] for t in THRESHOLDS}
        scores["right_when_quoted"] = {t: share(sum(all_), len(all_) or 1) for t, all_ in quoted.items()}
    scores["unknown"] = {t: share(sum(value < t for value in support), len(rows)) for t in THRESHOLDS}
    return scores


def held_out(sample: int) -> dict[str, list[Row]]:
    """Return rows of the parts that are reported, drawn with the seed."""
    draw = random.Random(SEED)
    questions, squad2 = nq().reported, squad().reported
    groups = {
        "nq": questions,
        "squad2 answerable": [row for row in squad2 if row.answers],
        "squad2 unanswerable": [row for row in squad2 if not row.answers],
    }
    drawn = {name: draw.sample(rows, min(sample, len(rows))) for name, rows in groups.items()}
    others = zip(drawn["nq"], [*drawn["nq"][1:], *drawn["nq"][:1]], strict=True)
    drawn["nq, another question's passage"] = [Row(row.question, other.passages, []) for row, other in others]
    pool = [row.passages[0] for row in questions]
    nearest = without_answer(drawn["nq"], pool)
    drawn["nq, a found passage without the answer"] = [row for rows in nearest for row in rows]
    return drawn


def without_answer(rows: Sequence[Row], pool: Sequence[TaskPassage], most: int = 1) -> list[list[Row]]:
    """Return for each question those of the ten passages that BM25 finds that do not have its answer, as rows."""
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize([f"{passage['title']} {passage['text']}" for passage in pool], show_progress=False),
        show_progress=False,
    )
    asked = bm25s.tokenize([row.question for row in rows], show_progress=False)
    ranked, _ = index.retrieve(asked, corpus=np.array(pool, dtype=object), k=10, show_progress=False)
    return [
        [
            Row(row.question, [passage], [])
            for passage in best
            if not holds(f"{passage['title']} {passage['text']}", row.answers)
        ][:most]
        for row, best in zip(rows, ranked, strict=True)
    ]


def table(features: Sequence[Features], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return features as rows over their standard deviations, and the deviations."""
    values = np.array([[values.get(name, 0.0) for name in names] for values in features])
    spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    return values / spread, spread


def fit_rank(groups: Sequence[tuple[list[Features], list[bool], float]], names: Sequence[str]) -> dict[str, float]:
    """Fit the ranker: maximal likelihood of the right sentences, a softmax a passage."""
    values, spread = table([text_features for group in groups for text_features in group[0]], names)
    at = np.repeat(np.arange(len(groups)), [len(group[0]) for group in groups])
    right = np.concatenate([np.array(group[1]) for group in groups])
    weight = np.array([group[2] for group in groups])

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        odds = np.exp(values @ w)
        all_, good = np.bincount(at, odds), np.bincount(at, odds * right)
        pull = (odds / all_[at] - odds * right / good[at]) * weight[at]
        return float((weight * np.log(all_ / good)).sum() + 10 * w @ w), values.T @ pull + 20 * w

    return _named(names, minimize(loss, np.zeros(len(names)), jac=True).x / spread)


def fit_support(rows: Sequence[tuple[Features, bool]], names: Sequence[str]) -> dict[str, float]:
    """Fit the support of the best sentence: a logistic regression, answerable or not."""
    values, spread = table([row for row, _ in rows], names)
    sign = np.where([answerable for _, answerable in rows], 1.0, -1.0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        wrong = 1 / (1 + np.exp(sign * (values @ w)))
        return float(-np.log(1 - wrong).sum() + 2 * w @ w), values.T @ (-sign * wrong) + 4 * w

    return _named(names, minimize(loss, np.zeros(len(names)), jac=True).x / spread)


def _named(names: Sequence[str], weights: Iterable[float]) -> dict[str, float]:
    return {name: round(float(weight), 2) for name, weight in zip(names, weights, strict=True)}


Read = list[tuple[Row, list[tuple[str, Features]]]]
"""Rows whose passage has sentences, with these and their features."""


def features(rows: Iterable[Row], *, encoder: bool) -> Read:
    return [
        (row, pair) for row in rows for _, pair in features_of(asked_of(row.question), row.passages, encoder=encoder)
    ]


def rank_of(rows: Read) -> dict[str, float]:
    """Fit the ranker on rows with answers."""
    groups = [
        ([values for _, values in pairs], [holds(text, row.answers) for text, _ in pairs], row.weight)
        for row, pairs in rows
    ]
    return fit_rank([group for group in groups if any(group[1]) and not all(group[1])], RANK)


def support_of(rows: Read, rank: Mapping[str, float], names: Sequence[str]) -> dict[str, float]:
    """Fit the support on the sentences that the ranker takes."""
    best = [
        (max((values for _, values in pairs), key=lambda values: weighted(rank, values)), bool(row.answers))
        for row, pairs in rows
    ]
    return fit_support(best, names)


def fitted() -> dict[str, Any]:
    """Return the weights: those of words, and what reading adds."""
    questions, articles = nq(), squad()
    known = [*questions.trained, *questions.fitted, *questions.reported]
    near_misses = without_answer(questions.fitted, [row.passages[0] for row in known])
    by_words = features(articles.trained + articles.fitted, encoder=False)
    own = features([*questions.trained, *questions.fitted, *more(known)], encoder=False)
    by_reading = features(
        [*questions.fitted, *articles.fitted, *(row for rows in near_misses for row in rows)], encoder=True
    )
    rank = rank_of(own + by_words) | {"full": 4.0, "read": 1.0}
    support = {
        "lexical": support_of(by_words, rank, SUPPORT["lexical"]),
        "minilm": support_of(by_reading, rank, SUPPORT["minilm"]),
    }
    return {"rank": rank, "support": support}


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit and measure the extractive model on NQ-open and SQuAD 2.0.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with nq, abstain and filter")
    parser.add_argument("--sample", type=int, default=800, help="questions a group")
    parser.add_argument("--fit", action="store_true", help="print fitted weights; nothing is measured")
    chosen = parser.parse_args()
    if not chosen.data.is_dir():
        print(f"No data at {chosen.data}: nothing to measure.", file=sys.stderr)
        return 0
    os.chdir(chosen.data)
    if chosen.fit:
        print(json.dumps(fitted(), indent=2))
        return 0
    rows = held_out(chosen.sample)
    result: dict[str, Any] = {
        "command": f"python benchmarks/extractive_nq.py --sample {chosen.sample}",
        "date": time.strftime("%Y-%m-%d"),
    }
    for similarity in ("lexical", "minilm"):
        encoder = similarity == "minilm"
        result[similarity] = {name: measure(group, encoder=encoder) for name, group in rows.items()}
    RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(RESULT.read_text(encoding="utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
