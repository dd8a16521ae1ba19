"""When to retrieve: a router on recorded answers of a large model, by cross-validation.

    python benchmarks/routing.py

Reads `../shared/data/recorded-llama31-8b` (six data sets, 500 questions each: what Llama-3.1-8B-Instruct answered
without retrieval, after one round of BM25 and by IRCoT). The router is fitted on four folds of the questions and
measured on the fifth, on all data sets together; it never sees a right answer or a data set's name. An answer is right
if it contains a right one (In-Accuracy). The threshold is chosen so that at most 60 % are retrieved for. Then the router
is compared with one search for every question, in points, with a 95 % interval and the p of a paired randomisation test.
Exits with 1 if the AUC of "right without retrieval" is below the floor, .745.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from ragweave.evaluation.statistics import compare
from ragweave.state import ROUTES
from ragweave.tools.text.words import normalize_answer
from ragweave.tools.trained.linear import read_rows
from ragweave.training.job import auc
from ragweave.training.linear import best_threshold, out_of_fold, routed, routes_of

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
SETS = {
    "nq": "NQ",
    "trivia": "TriviaQA",
    "squad": "SQuAD",
    "hotpotqa": "HotpotQA",
    "2wikimultihopqa": "2Wiki",
    "musique": "MuSiQue",
}
FLOOR = 0.745
FIELDS = {"none": "no_retrieval", "one": "one_round", "many": "ircot"}
"""The recording's fields, by route."""
ESCAPE = re.compile(r'\\u[0-9a-fA-F]{4}|\\["/]')


def recorded(path: Path) -> Iterator[tuple[str, str, list[bool]]]:
    """Yield each row's question, its draft without retrieval, and which routes gave a right answer."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in map(json.loads, file):
            golds = [gold for answer in row["answers"] if (gold := normalize_answer(answer))]
            replies = {route: f" {normalize_answer(answer_of(row[field]))} " for route, field in FIELDS.items()}
            right = [any(f" {gold} " in replies[route] for gold in golds) for route in ROUTES]
            yield row["question"], draft_of(row[FIELDS["none"]]), right


def answer_of(reply: dict[str, Any]) -> str:
    """Return an answer, which was cut out of a JSON string with its escapes."""
    plain = ESCAPE.sub(lambda escape: str(json.loads(f'"{escape.group()}"')), reply["answer"])
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


def draft_of(reply: dict[str, Any]) -> str:
    """Return the reasoning, or the answer if no reasoning was recorded; it may be a JSON string."""
    parts = reply.get("said") or []
    text = str(parts[0]) if len(parts) > 1 else ""
    with suppress(ValueError):
        text = str(json.loads(text))
    return text.strip() or answer_of(reply)


def main() -> int:
    """Print accuracy and AUC by data set."""
    rows = [(name, *row) for name in SETS for row in recorded(DATA / "recorded-llama31-8b" / f"{name}.jsonl.gz")]
    sets = np.asarray([name for name, *_ in rows])
    right = np.asarray([routes for *_, routes in rows])
    read = read_rows([(question, draft) for _, question, draft, _ in rows], "minilm")
    chances = out_of_fold(read, right, [question for _, question, *_ in rows], 5)
    threshold = best_threshold(chances, right, 0.6)
    for name, shown in {**SETS, "all": "all"}.items():
        chosen = (sets == name) | (name == "all")
        measures = routed(chances[chosen], right[chosen], threshold)
        print(f"{shown:10}" + "  ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in measures.items()))
    answered = right[np.arange(len(right)), routes_of(chances, threshold)]
    result = compare(100.0 * answered, 100.0 * right[:, 1])
    gain = result.difference
    print(
        f"router − one search: {gain.mean:+.1f} [{gain.low:.1f}, {gain.high:.1f}], {gain.n} questions, p {result.p:.3f}"
    )
    reached = auc(chances[:, 0], right[:, 0])
    print(f"AUC {reached:.4f} (floor {FLOOR})")
    return int(reached < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
