"""Scores of one answered question, by what its data set asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Question
from ragweave.evaluation.metrics import METRICS, Metric


def scores(
    question: Question, state: Mapping[str, Any], metrics: Sequence[Metric] | None = None
) -> dict[str, float]:
    """Return every score that applies, 0 to 1, by the metric's name.

    Args:
        question: The question with its gold.
        state: The graph's final state.
        metrics: What to compute; None: all of ours.

    Raises:
        UsageError: A metric failed, or gave something that is not a number.
    """
    found: dict[str, float] = {}
    for metric in METRICS.ours() if metrics is None else metrics:
        try:
            value = metric.compute(question, state)
        except Exception as error:
            raise UsageError(
                f"the metric {metric.name!r} failed on question {question.id!r}: "
                f"{type(error).__name__}: {' '.join(str(error).split())}"
            ) from error
        if value is None:
            continue
        if not isinstance(value, Real):
            raise UsageError(
                f"the metric {metric.name!r} must give a number or None, not {value!r}"
            )
        found[metric.name] = float(value)
    return found
