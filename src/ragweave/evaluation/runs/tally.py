"""Where a run stands: counts, running scores, what was spent, how long it will take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ragweave.evaluation.metrics import METRICS, MetricInfo, primary_metric
from ragweave.evaluation.runs.ledger import Ledger
from ragweave.evaluation.runs.outcome import Record


@dataclass
class Progress:
    """Sums over the finished questions of a run."""

    planned: int
    """Questions × systems in all."""
    metrics: Sequence[MetricInfo] = field(default_factory=METRICS.ours)
    """What the run computes."""
    answered: int = 0
    failed: int = 0
    spent: Ledger = field(default_factory=Ledger)
    cost: float = 0.0
    """US dollars, where prices are known."""
    fresh: int = 0
    """Finished in this session."""
    started: float = field(default_factory=time.monotonic)
    _sums: dict[str, tuple[str, float, int]] = field(default_factory=dict)

    def add(self, record: Record, *, fresh: bool = True) -> None:
        """Take a record in; `fresh` unless it was read back from an earlier session."""
        self.fresh += fresh
        self.spent.add(record["spent"])
        self.cost += record["cost"] or 0.0
        if record["error"]:
            self.failed += 1
            return
        self.answered += 1
        scores = record["scores"]
        name = primary_metric(record["scoring"], scores, self.metrics)
        if name is not None:
            value = scores[name]
            _, total, count = self._sums.get(record["system"], (name, 0.0, 0))
            self._sums[record["system"]] = (name, total + value, count + 1)

    @property
    def finished(self) -> int:
        """Questions × systems that are answered or failed."""
        return self.answered + self.failed

    @property
    def running(self) -> dict[str, tuple[str, float]]:
        """The mean of the primary metric so far, and its name, by system."""
        return {label: (name, total / count) for label, (name, total, count) in self._sums.items()}

    @property
    def eta(self) -> float | None:
        """Seconds that are left at this session's pace; None before the first result."""
        if not self.fresh:
            return None
        pace = (time.monotonic() - self.started) / self.fresh
        return pace * (self.planned - self.finished)
