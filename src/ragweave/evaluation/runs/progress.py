"""How a run is worked on (`RunConfig`), how far it has come (`Progress`), and its `Budget`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS, MetricInfo, Price, cost, primary_metric
from ragweave.evaluation.runs.broker import CallBroker
from ragweave.evaluation.runs.calls import Ledger
from ragweave.evaluation.runs.outcome import Record, thread_name
from ragweave.evaluation.runs.settings import RunSettings


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
    prices: Mapping[str, Any] = field(default_factory=dict)
    """Prices by role, `*` for the rest; empty: none are known."""
    cost: float = 0.0
    """US dollars, where prices are known; too little where a role has none (`unpriced`)."""
    fresh: int = 0
    """Finished in this session."""
    started: float = field(default_factory=time.monotonic)
    failures: dict[str, Record] = field(default_factory=dict)
    """Records of the questions that failed, by their threads."""
    _sums: dict[str, tuple[str, float, int]] = field(default_factory=dict)

    def add(self, record: Record, *, fresh: bool = True) -> None:
        """Count a record; `fresh` unless it was read back from an earlier session.

        A question that failed and is asked again has the replies of both attempts in its second
        record, so that the first counts no longer.
        """
        self.fresh += fresh
        thread = thread_name(record["at"], record["system"])
        self.drop(thread)
        self._spend(record)
        if record["error"]:
            self.failed += 1
            self.failures[thread] = record
            return
        self.answered += 1
        scores = record["scores"]
        name = primary_metric(record["scoring"], scores, self.metrics)
        if name is not None:
            value = scores[name]
            _, total, count = self._sums.get(record["system"], (name, 0.0, 0))
            self._sums[record["system"]] = (name, total + value, count + 1)

    def drop(self, thread: str) -> None:
        """Take off what a question that failed has cost, if it is one: it is counted anew."""
        if (before := self.failures.pop(thread, None)) is not None:
            self._spend(before, times=-1)

    def _spend(self, record: Record, times: int = 1) -> None:
        for one in (record, record.get("judge")):
            if one is not None:
                self.spent.add(one["spent"], times)
                self.cost += times * (one["cost"] or 0.0)

    @property
    def finished(self) -> int:
        """Questions × systems that are answered or failed."""
        return self.answered + self.failed

    @property
    def unpriced(self) -> list[str]:
        """Roles that were paid and have no price, where there are prices."""
        if not self.prices or "*" in self.prices:
            return []
        paid = self.spent.paid.items()
        return sorted(role for role, one in paid if one["calls"] and role not in self.prices)

    @property
    def running(self) -> dict[str, tuple[str, float]]:
        """The mean of the primary metric so far, and its name, by system."""
        return {label: (name, total / count) for label, (name, total, count) in self._sums.items()}

    @property
    def eta(self) -> float | None:
        """Seconds left at this session's pace; None before the first result."""
        if not self.fresh:
            return None
        pace = (time.monotonic() - self.started) / self.fresh
        return pace * (self.planned - self.finished)


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """How a session works on a run; none of it affects the results."""

    concurrency: int = 16
    """Questions × systems in flight at once."""
    cache: Path | None = None
    """File of replies that runs share."""
    budget_tokens: int | None = None
    """Tokens paid for in all sessions of the run; once they are reached, no question is begun: with
    0, none at all."""
    budget_usd: float | None = None
    """The same in US dollars, by the run's prices."""
    retry_failed: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, not {self.concurrency}")
        for name in ("budget_tokens", "budget_usd"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise UsageError(f"--{name.replace('_', '-')} can't be below 0 ({value})")

    def after(self, progress: Progress) -> RunConfig:
        """Return it for the next run under the same budgets, less what a run has spent."""
        tokens, dollars = self.budget_tokens, self.budget_usd
        if tokens is not None:
            tokens = max(tokens - progress.spent.paid_tokens, 0)
        if dollars is not None:
            dollars = max(dollars - progress.cost, 0.0)
        return replace(self, budget_tokens=tokens, budget_usd=dollars)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self) | {"cache": None if self.cache is None else str(self.cache)}

    @classmethod
    def from_plain(cls, values: Mapping[str, Any]) -> RunConfig:
        """Read what `plain` returned."""
        cache = values["cache"]
        return cls(**{**values, "cache": None if cache is None else Path(cache)})


@dataclass
class Budget:
    """The budgets of a session: what was spent before it, and since."""

    config: RunConfig
    settings: RunSettings
    progress: Progress
    broker: CallBroker
    _before: Progress = field(init=False)
    """What was spent before the session, without what this session's replays count again."""

    def __post_init__(self) -> None:
        before = self.progress
        spent = Ledger()
        spent.add(before.spent.plain())
        self._before = replace(before, spent=spent, failures=dict(before.failures))

    def has_room(self) -> bool:
        """Return whether another question may begin; those in flight are always finished.

        Raises:
            UsageError: There is a budget in dollars, and a role that was paid has no price.
        """
        for thread in self.broker.replayed & self._before.failures.keys():
            self._before.drop(thread)
        tokens, dollars = self.config.budget_tokens, self.config.budget_usd
        now, before = self.broker.total, self._before
        if tokens is not None and before.spent.paid_tokens + now.paid_tokens >= tokens:
            return False
        if dollars is None:
            return True
        prices = {role: Price(*pair) for role, pair in self.settings.prices.items()}
        spent = cost(now.paid, prices)
        if spent is None:
            roles = ", ".join(role for role in now.paid if role not in prices)
            raise UsageError(
                f"--budget-usd can't be kept: no price for {roles}; start a new run with prices for "
                "all roles, or resume this one with --budget-tokens"
            )
        return before.cost + spent < dollars
