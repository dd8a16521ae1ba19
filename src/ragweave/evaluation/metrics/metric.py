"""`Metric`, the declaration of a metric: its names, and how it is computed.

    WORDS = Metric("words", "Words", "Words of the answer.",
                   lambda question, state: len(given(state).split()), percent=False)

It takes the question with its gold data and the graph's final state, and returns a number, or None if it does not apply.
A package lists it as an entry point of the group `ragweave.metrics`; a script passes it to `evaluate(own=[…])`.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragweave.datasets import Question

State: TypeAlias = Mapping[str, Any]
"""A graph's final state (`answer`, `status`, `passages`, `retrieved`, `candidates`, `citations`, `usage`), with
`depth`, the passages that a query finds, and `large`, the roles that the answering model plays."""

Score: TypeAlias = float | None
Compute: TypeAlias = Callable[[Question, State], Score]
Judge: TypeAlias = Callable[[Question, State, Any], Awaitable[Score]]
"""The third argument is the judge, a chat model."""


@dataclass(frozen=True)
class Metric:
    """A metric."""

    name: str
    label: str
    """Its name in reports."""
    summary: str
    compute: Compute = lambda _question, _state: None
    judge: Judge | None = None
    """Instead of `compute`, if a chat model judges."""
    higher_is_better: bool = True
    source: str = ""
    """Its publication."""
    percent: bool = True
    """Whether it ranges from 0 to 1 and is shown in percent."""
    on_request: bool = False
    """Whether it is computed only if named."""

    def described(self) -> dict[str, Any]:
        """Return what a report says about it, as JSON: its package may be missing when the report is made."""
        return {name: getattr(self, name) for name in ("label", "summary", "higher_is_better", "source", "percent")}


def given(state: State) -> str:
    """Return the answer; "" if there is none."""
    return "" if state.get("status") == "unknown" else str(state["answer"])


def finite(scores_by_name: Mapping[str, Score]) -> dict[str, float]:
    """Return the scores that are numbers: without None, NaN and infinities."""
    numbers = {name: value for name, value in scores_by_name.items() if value is not None}
    return {name: round(float(value), 6) for name, value in numbers.items() if math.isfinite(value)}


async def scores(question: Question, state: State, metrics: Sequence[Metric], judge: Any = None) -> dict[str, float]:
    """Return every score that applies, by metric."""
    results: dict[str, Score] = {}
    for metric in metrics:
        if metric.judge is None:
            results[metric.name] = metric.compute(question, state)
        else:
            results[metric.name] = await metric.judge(question, state, judge)
    return finite(results)
