"""%Unk and %NM: answers not given, and right answers that a vote passed over.

Source: Liu et al. 2024 (Modeling Uncertainty and Using Post-fusion as Fallback), section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.metrics.coverage import accuracy
from ragweave.evaluation.metrics.metric import Metric, given_answer
from ragweave.evaluation.metrics.squad import exact_match

Right = Callable[[str], float]
"""Whether an answer is right: 1.0 or 0.0."""


def unknown(status: str) -> float:
    """Return 1.0 where the method gave no answer (`status` is `unknown`), else 0.0."""
    return float(status == "unknown")


def not_majority(answer: str, pool: Iterable[str], right: Right) -> float:
    """Return 1.0 where a right answer is in the pool and the final answer is not right."""
    return float(not right(answer) and any(right(one) for one in pool))


def _unknown(question: Question, state: Mapping[str, Any]) -> float:  # noqa: ARG001 - a Compute
    return unknown(state["status"])


def _not_majority(question: Question, state: Mapping[str, Any]) -> float | None:
    golds = question.answers
    pool = [one["answer"] for one in state["candidates"].values()]
    if question.scoring == "short":
        return not_majority(given_answer(state), pool, lambda one: exact_match(one, golds))
    if question.scoring == "accuracy" and golds:
        return not_majority(given_answer(state), pool, lambda one: accuracy(one, golds))
    return None


UNKNOWN = Metric(
    name="unknown",
    label="%Unk",
    summary="No answer was given.",
    compute=_unknown,
    higher_is_better=False,
    source="Liu et al. 2024, Post-fusion as Fallback, section 4",
)
NM = Metric(
    name="nm",
    label="%NM",
    summary="A candidate was right, and the final answer is not.",
    compute=_not_majority,
    higher_is_better=False,
    source="Liu et al. 2024, Post-fusion as Fallback, section 4",
)
