"""What the tables of `real_models.py` learn from: `skr_knn`'s questions, FILCO's trained filter.

Each is made where it is missing and kept beside the runs: the questions that a model answered
without a search or could not, and a `span-encoder` filter. The filter learns from SQuAD 2.0's
sample alone, one epoch over the sentences that hold an answer (`strinc`): no question or passage
of the tables' data sets is trained on.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ragweave.evaluation.runs import System
from ragweave.training.job import Watch
from ragweave.training.labels import Passages, SilverLabeler, make_labels, open_source
from ragweave.training.train import plan_training, train_part

SKR_TRAINING = "slimplm/judge-llama7b-train.jsonl.gz"
SILVER = "squad:abstain/squad2-dev-sample.json.gz"
TRAINED = "trained"
"""In a table, the option `filter` of the system whose filter is trained here."""


class Lines(Watch):
    """Prints every hundredth step, where a training of minutes is."""

    def step(self, done: int, total: int, loss: float | None) -> None:  # noqa: ARG002
        """Tell a step."""
        if done % 100 == 0 or done == total:
            print(f"training the filter: {done}/{total}", file=sys.stderr, flush=True)


def with_parts(systems: Sequence[System], data: Path, runs: Path) -> list[System]:
    """Return the systems, each with what it learns from."""
    found = []
    for one in systems:
        if one.method == "skr_knn":
            training = str(training_questions(data, runs))
            one = replace(one, options={"training": training, **one.options})
        if one.options.get("filter") == TRAINED:
            one = replace(one, options={**one.options, "filter": str(trained_filter(data, runs))})
        found.append(one)
    return found


def training_questions(data: Path, runs: Path) -> Path:
    """Return the file that `skr_knn` learns from: questions that a model did not know need a search."""
    path = runs / "skr-training.jsonl"
    if not path.exists():
        with gzip.open(data / SKR_TRAINING, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        asked = [{"question": one.get("question") or one["input"], "needed": not one["known"]} for one in rows]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in asked), encoding="utf-8")
    return path


def trained_filter(data: Path, runs: Path) -> Path:
    """Return the folder of FILCO's trained filter; a training that was broken off goes on."""
    folder = runs / "filter"
    if not (folder / "part.json").is_file():
        kind, _, file = SILVER.partition(":")
        runs.mkdir(parents=True, exist_ok=True)
        labeler = SilverLabeler("strinc", Passages(None, 1), top=None)
        rows = make_labels(open_source(f"{kind}:{data / file}"), labeler, runs / "filter-rows.jsonl", skip_bad=True)
        plan = plan_training("filter", rows.path, folder, settings={"epochs": 1.0, "held_out": 0.02})
        train_part(plan, resume=(folder / "training.json").is_file(), watch=Lines())
    return folder
