"""Which questions a model answers without context: those that a study of contexts leaves out.

Source: Liu et al. 2024 (Post-fusion as Fallback), section 4.1: of the development sets, questions
that can be answered without context are removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Dataset
from ragweave.evaluation.runs.directory import RunDirectory
from ragweave.evaluation.runs.results import records_of
from ragweave.evaluation.runs.settings import RunSettings

_RIGHT = ("em", "accuracy", "coverage_em")


def not_answered_in(run: Path, dataset: Dataset) -> tuple[int, ...]:
    """Return the positions of the questions that `direct` did not get right in an earlier run.

    Raises:
        UsageError: The run is none, is of another data set, asked no question without context, is
            not complete, or none of its questions is left.
    """
    directory = RunDirectory(run)
    settings = directory.settings
    if settings.dataset_hash != dataset.hash:
        raise UsageError(f"{run}: is a run over another data set ({settings.dataset})")
    label = _without_context(settings, run)
    right = {
        record["at"]: _is_right(record, run)
        for record in records_of([directory.results])
        if record["system"] == label and not record["error"]
    }
    if len(right) < settings.planned:
        raise UsageError(
            f"{run}: {len(right)} of {settings.planned} questions are answered by {label}: finish "
            f"it first with `ragweave eval --resume {run}`"
        )
    left = tuple(sorted(at for at, said in right.items() if not said))
    if not left:
        raise UsageError(f"{run}: {label} answered every question: none is left to ask")
    return left


def _without_context(settings: RunSettings, run: Path) -> str:
    for one in settings.systems if settings.passages == "searched" else ():
        if one.method == "direct" and not getattr(one.resolved(), "retrieve", True):
            return one.label
    raise UsageError(f"{run}: asks no question without context: run --methods direct first")


def _is_right(record: dict[str, Any], run: Path) -> bool:
    for name in _RIGHT:
        if name in record["scores"]:
            return bool(record["scores"][name] == 1.0)
    raise UsageError(f"{run}: its answers are texts, and none of them is simply right or wrong")
