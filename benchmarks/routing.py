"""When to retrieve: a router on recorded answers of a large model, by cross-validation.

    python benchmarks/routing.py

Reads `../shared/data/recorded-llama31-8b` (six data sets, 500 questions each: what Llama-3.1-8B-Instruct answered
without retrieval, after one round of BM25 and by IRCoT). The router is fitted on four folds of the questions and
measured on the fifth, on all data sets together; it never sees a right answer or a data set's name. An answer is right
if it contains a right one (In-Accuracy). The threshold is chosen so that at most 60 % are retrieved for. Exits with 1 if the AUC of "right without retrieval" is below the floor, .745.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ragweave.state import ROUTES
from ragweave.tools.trained.linear import read_rows
from ragweave.training.linear import best_threshold, out_of_fold, routed
from ragweave.training.measures import auc
from ragweave.training.rows import RouterRow
from ragweave.training.rows import read_rows as read_labels

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


def main() -> int:
    """Print accuracy and AUC by data set."""
    labels = [
        (name, row) for name in SETS for row in read_labels(DATA / "recorded-llama31-8b" / f"{name}.jsonl.gz", "router")
    ]
    rows = [row for _, row in labels if isinstance(row, RouterRow)]
    sets = np.asarray([name for name, _ in labels])
    right = np.asarray([[row.right[route] for route in ROUTES] for row in rows])
    read = read_rows([(row.question, row.draft) for row in rows], "minilm")
    chances = out_of_fold(read, right, [row.question for row in rows], 5)
    threshold = best_threshold(chances, right, 0.6)
    for name, shown in {**SETS, "all": "all"}.items():
        chosen = (sets == name) | (name == "all")
        found = routed(chances[chosen], right[chosen], threshold)
        print(f"{shown:10}" + "  ".join(f"{key.replace('_', ' ')} {value:.3f}" for key, value in found.items()))
    reached = auc(chances[:, 0], right[:, 0])
    print(f"AUC {reached:.4f} (floor {FLOOR})")
    return int(reached < FLOOR)


if __name__ == "__main__":
    sys.exit(main())
