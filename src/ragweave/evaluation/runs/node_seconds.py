"""Wall time by node: how long a node was at work, and what its executions add up to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypedDict


class NodeSeconds(TypedDict):
    """What one node took for one question."""

    runs: int
    """Its executions: branches, rounds, tries."""
    elapsed: float
    """Seconds in which at least one execution was under way: executions side by side count once."""
    total: float
    """Seconds of all executions together: executions side by side add up."""


@dataclass(slots=True)
class Stopwatch:
    """Takes in a question's executions; a `Clock` of `ragweave.nodes.clock`."""

    _spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def __call__(self, name: str, began: float, ended: float) -> None:
        """Take an execution in, in seconds of one clock."""
        self._spans.setdefault(name, []).append((began, ended))

    def plain(self) -> dict[str, NodeSeconds]:
        """Return what each node took, in the order of their first ends."""
        return {name: _taken(spans) for name, spans in self._spans.items()}


def _taken(spans: list[tuple[float, float]]) -> NodeSeconds:
    elapsed, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        elapsed += max(0.0, ended - max(began, until))
        until = max(until, ended)
    total = sum(ended - began for began, ended in spans)
    return {"runs": len(spans), "elapsed": round(elapsed, 6), "total": round(total, 6)}
