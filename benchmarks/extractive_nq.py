"""How often the embedded extractive model quotes a right sentence, and how often it says Unknown.

    python benchmarks/extractive_nq.py --data ../shared/data [--sample 400] [--fit]

NQ-open's gold passages are split by question and SQuAD 2.0 by article, both with a seed. The weights of
`ragweave.tools.models.extractive` are fitted on one half and measured on a sample of the other: on NQ-open with
each question's gold passage, and with another question's; on SQuAD 2.0 with its questions that the passage
answers, and those that it does not answer. `--fit` prints the weights; fitted on as well are the questions of QED
and of DPR's passages that NQ-open does not have. Which features there are was chosen on the first half.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from ragweave.tools.models import extractive
from ragweave.tools.models.extractive import Features, asked_of, best_evidence, features_of, weighted
from ragweave.tools.models.tasks import TaskPassage
from ragweave.tools.text.normalize import normalize_answer

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
RESULT = ROOT / "benchmarks" / "results" / "extractive_nq.json"
SEED = 13
WORDS = ("cover", "cover_with_previous", "title", "early", "length", "by")
KINDS = ("number", "date", "who", "where", "")
RANK = [*WORDS, *(f"has:{kind}" for kind in KINDS), *(f"near:{kind}" for kind in KINDS if kind)]
TOKENS = ["cosine", "match"]
SUPPORT = ["one", "missing", "negation"]
THRESHOLDS = (0.3, 0.4, 0.45, 0.5, 0.55, 0.6)


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


def whole(name: str) -> Any:
    with gzip.open(name, "rt", encoding="utf-8") as file:
        return json.load(file)


def halves(rows: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return the half that is fitted on and the half that is reported."""
    order = list(range(len(rows)))
    random.Random(SEED).shuffle(order)
    fitted = set(order[: len(order) // 2])
    return [rows[i] for i in sorted(fitted)], [rows[i] for i in order if i not in fitted]


def nq() -> list[Row]:
    found = lines("nq/nq-open-oracle.jsonl.gz")
    return [
        Row(one["question"], [passage(one["ctxs"][0]["title"], one["ctxs"][0]["text"])], one["answers"])
        for one in found
    ]


def squad() -> tuple[list[Row], list[Row]]:
    def rows(article: Any) -> Iterator[Row]:
        for paragraph in article["paragraphs"]:
            for one in paragraph["qas"]:
                answers = [] if one["is_impossible"] else [answer["text"] for answer in one["answers"]]
                yield Row(one["question"], [passage(article["title"], paragraph["context"])], answers, 0.3)

    first, second = halves(whole("abstain/squad2-dev-sample.json.gz")["data"])
    return [row for one in first for row in rows(one)], [row for one in second for row in rows(one)]


def more(known: Iterable[Row]) -> list[Row]:
    """Return the questions of QED and of DPR's passages that are not among the known ones."""
    asked = {normalize_answer(one.question) for one in known}
    rows = [
        Row(one["question"], [passage(one["ctx"]["title"], one["ctx"]["text"])], one["answers"])
        for one in lines("nq/dpr-one-passage.jsonl.gz")
    ]
    for one in lines("filter/qed-dev.jsonl.gz"):
        answers = [part["string"] for given in one["original_nq_answers"] for part in given]
        rows.append(Row(one["question_text"], [passage(one["title_text"], one["paragraph_text"])], answers))
    return [one for one in rows if normalize_answer(one.question) not in asked]


def holds(text: str, answers: Iterable[str]) -> bool:
    padded = f" {normalize_answer(text)} "
    return any(f" {wanted} " in padded for one in answers if (wanted := normalize_answer(one)))


def share(part: int, of: int) -> float:
    return round(100 * part / of, 1)


def measure(rows: Sequence[Row], *, encoder: bool) -> dict[str, Any]:
    """Return shares in percent: of right sentences, and of Unknown at each threshold."""
    found = [best_evidence(one.question, one.passages, encoder=encoder)[:1] for one in rows]
    support = [quote[0].support if quote else 0.0 for quote in found]
    right = [bool(quote) and holds(quote[0].text, row.answers) for row, quote in zip(rows, found, strict=True)]
    scores: dict[str, Any] = {"questions": len(rows)}
    if any(row.answers for row in rows):
        first = [features_of(asked_of(row.question), row.passages[0])[:1] for row in rows]
        starts = [bool(one) and holds(one[0][0], row.answers) for row, one in zip(rows, first, strict=True)]
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
    """Return rows of the halves that the shipped weights were not fitted on, drawn with the seed."""
    draw = random.Random(SEED)
    questions, squad2 = halves(nq())[1], squad()[1]
    groups = {
        "nq": questions,
        "squad2 answerable": [one for one in squad2 if one.answers],
        "squad2 unanswerable": [one for one in squad2 if not one.answers],
    }
    drawn = {name: draw.sample(rows, min(sample, len(rows))) for name, rows in groups.items()}
    others = zip(drawn["nq"], [*drawn["nq"][1:], *drawn["nq"][:1]], strict=True)
    drawn["nq, another question's passage"] = [Row(one.question, other.passages, []) for one, other in others]
    return drawn


def table(features: Sequence[Features], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return features as rows over their standard deviations, and the deviations."""
    values = np.array([[one.get(name, 0.0) for name in names] for one in features])
    spread = np.where(values.std(axis=0) > 0, values.std(axis=0), 1.0)
    return values / spread, spread


def fit_rank(groups: Sequence[tuple[list[Features], list[bool], float]], names: Sequence[str]) -> dict[str, float]:
    """Fit the ranker: maximal likelihood of the right sentences, a softmax a passage."""
    values, spread = table([one for group in groups for one in group[0]], names)
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
    values, spread = table([one for one, _ in rows], names)
    sign = np.where([answerable for _, answerable in rows], 1.0, -1.0)

    def loss(w: np.ndarray) -> tuple[float, np.ndarray]:
        wrong = 1 / (1 + np.exp(sign * (values @ w)))
        return float(-np.log(1 - wrong).sum() + 2 * w @ w), values.T @ (-sign * wrong) + 4 * w

    return _named(names, minimize(loss, np.zeros(len(names)), jac=True).x / spread)


def _named(names: Sequence[str], weights: Iterable[float]) -> dict[str, float]:
    return {name: round(float(one), 2) for name, one in zip(names, weights, strict=True)}


def fit(ranked: Sequence[Row], judged: Sequence[Row], *, encoder: bool) -> extractive.Weights:
    """Fit the ranker on both, the support on the judged."""
    most = 1000 if encoder else None

    def read(rows: Sequence[Row]) -> list[tuple[Row, list[tuple[str, Features]]]]:
        found = [(row, features_of(asked_of(row.question), row.passages[0], most)) for row in rows]
        return [(row, one) for row, one in found if one]

    to_judge = read(judged)
    groups = [
        ([one for _, one in found], [holds(text, row.answers) for text, _ in found], row.weight)
        for row, found in [*read(ranked), *to_judge]
    ]
    rank = fit_rank([one for one in groups if any(one[1]) and not all(one[1])], RANK + TOKENS * encoder)
    best = [
        (max((one for _, one in found), key=lambda one: weighted(rank, one)), bool(row.answers))
        for row, found in to_judge
    ]
    support = fit_support(best, [*SUPPORT, "nearest" if encoder else "cover"])
    return extractive.Weights(rank, support, (extractive.MINILM if encoder else extractive.LEXICAL).threshold)


def main() -> int:
    parser = argparse.ArgumentParser(description="Fit and measure the extractive model on NQ-open and SQuAD 2.0.")
    parser.add_argument("--data", type=Path, default=DATA, help="the folder with nq, abstain and filter")
    parser.add_argument("--sample", type=int, default=400, help="questions a group")
    parser.add_argument("--fit", action="store_true", help="print fitted weights; nothing is measured")
    chosen = parser.parse_args()
    if not chosen.data.is_dir():
        print(f"No data at {chosen.data}: nothing to measure.", file=sys.stderr)
        return 0
    os.chdir(chosen.data)
    if chosen.fit:
        questions, articles = halves(nq()), squad()
        for encoder in (False, True):
            ranked = questions[0] + more(questions[0] + questions[1])
            fitted = fit(ranked, articles[0], encoder=encoder)._asdict()
            print(json.dumps({"minilm" if encoder else "lexical": fitted}), flush=True)
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
