"""`Metric`, the declaration of a metric: what it is called, and how it is computed.

    WORDS = Metric("words", "Words", "Words of the answer.",
                   lambda question, state: len(given(state).split()), percent=False)

It gets the question with its gold and the graph's final state, and returns a number, or None if it does not
apply. A package lists it as an entry point of the group `ragweave.metrics`; a script hands it to
`evaluate(own=[…])`.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragweave.datasets import Question

State: TypeAlias = Mapping[str, Any]
"""A graph's final state (`answer`, `status`, `passages`, `retrieved`, `candidates`, `citations`, `usage`), and
as `depth` how many passages a query finds, as `large` the roles that the answering model plays."""

Score: TypeAlias = float | None
Compute: TypeAlias = Callable[[Question, State], Score]
Judge: TypeAlias = Callable[[Question, State, Any], Awaitable[Score]]
"""The third argument is the chat model that judges."""


@dataclass(frozen=True)
class Metric:
    """A metric, as reports name it and as runs compute it."""

    name: str
    label: str
    """What reports call it."""
    summary: str
    compute: Compute = lambda _question, _state: None
    judge: Judge | None = None
    """In place of `compute`, if a chat model is asked."""
    higher_is_better: bool = True
    source: str = ""
    """Where it was published."""
    percent: bool = True
    """Whether it is from 0 to 1, and shown in percent."""
    on_request: bool = False
    """Whether it is computed only if it is named."""

    def described(self) -> dict[str, Any]:
        """Return what a report says of it, as JSON: the package that brought it may not be there."""
        return {name: getattr(self, name) for name in ("label", "summary", "higher_is_better", "source", "percent")}


def given(state: State) -> str:
    """Return the answer; "" if there is none."""
    return "" if state.get("status") == "unknown" else str(state["answer"])


def finite(found: Mapping[str, Score]) -> dict[str, float]:
    """Return the scores that are numbers: without None, NaN and infinities."""
    numbers = {name: value for name, value in found.items() if value is not None}
    return {name: round(float(one), 6) for name, one in numbers.items() if math.isfinite(one)}


async def scores(question: Question, state: State, metrics: Sequence[Metric], judge: Any = None) -> dict[str, float]:
    """Return every score that applies, by the metric's name."""
    found: dict[str, Score] = {}
    for metric in metrics:
        asked = metric.judge
        found[metric.name] = metric.compute(question, state) if asked is None else await asked(question, state, judge)
    return finite(found)
