"""What a run may spend, counted in one place and checked wherever a model is called.

A run with limits has a budget, which holds for the runs within it, too: those of a report's sections, or of a
conversation's method. A spent budget refuses every further call.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from math import ceil
from threading import Lock
from typing import Any

from ragweave.errors import RunTimeoutError


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What may be spent; None: no limit."""

    max_calls: int | None = None
    """Model calls."""
    max_total_tokens: int | None = None
    """Tokens, read and written."""
    max_cost_usd: float | None = None
    """US dollars."""
    timeout: float | None = None
    """Seconds."""

    def reached(self, calls: int, tokens: int, usd: float, seconds: float) -> str:
        """Return the name of a limit that is reached; "" if there is none."""
        spent = {"max_calls": calls, "max_total_tokens": tokens, "max_cost_usd": usd, "timeout": seconds}
        limits = {name: getattr(self, name) for name in spent}
        return next((name for name, limit in limits.items() if limit is not None and spent[name] >= limit), "")

    def less(self, calls: int, tokens: int, usd: float) -> "Limits":
        """Return what is left after so much was spent."""
        spent = {"max_calls": calls, "max_total_tokens": tokens, "max_cost_usd": usd}
        left = {name: limit - spent[name] for name in spent if (limit := getattr(self, name)) is not None}
        return replace(self, **left)

    def shared_by(self, runs: int) -> "Limits":
        """Return the share of each of several runs at the same time."""
        calls, tokens, usd = self.max_calls, self.max_total_tokens, self.max_cost_usd
        return replace(
            self,
            max_calls=calls and ceil(calls / runs),
            max_total_tokens=tokens and ceil(tokens / runs),
            max_cost_usd=usd and usd / runs,
        )


class BudgetSpent(Exception):  # noqa: N818 - not an error
    """A call is refused, or cut at the deadline; the text is the limit's name."""


class Budget:
    """What a run has spent of its limits, and of those of the run that it is part of. Safe under threads."""

    def __init__(self, limits: Limits, outer: "Budget | None" = None) -> None:
        self.limits, self.outer = limits, outer
        self.timed_out = self.answered = False
        self.tokens, self.usd = 0, 0.0
        self._calls = self._under_way = 0
        self._began, self._lock = time.monotonic(), Lock()

    @asynccontextmanager
    async def call(self, count: int = 1, *, awaits: bool = True) -> AsyncIterator[None]:
        """Make a call, or several, within the budget; an awaited one is cut at the deadline.

        Raises:
            BudgetSpent: The budget is spent, or the deadline has passed.
        """
        with self._under_way_with(count):
            async with self.until_deadline(awaits=awaits):
                yield

    @asynccontextmanager
    async def until_deadline(self, *, awaits: bool = True) -> AsyncIterator[None]:
        """Cut what is awaited meanwhile at the deadline, with `BudgetSpent`."""
        left = self.seconds_left() if awaits else None
        cut: Any = nullcontext() if left is None else asyncio.timeout(left)
        try:
            async with cut:
                yield
        except TimeoutError:
            if left is None or not cut.expired():
                raise
            self.reached()
            raise BudgetSpent("timeout") from None

    def reached(self) -> str:
        """Return the name of a limit that is reached, this run's or an outer one's; "" if there is none."""
        seconds = time.monotonic() - self._began
        limit = self.limits.reached(self._calls + self._under_way, self.tokens, self.usd, seconds)
        self.timed_out |= limit == "timeout"
        return limit or (self.outer.reached() if self.outer else "")

    def spend(self, calls: int, tokens: int, usd: float) -> None:
        """Count calls that were made."""
        with self._lock:
            self._calls += calls
            self.tokens += tokens
            self.usd += usd
        if self.outer:
            self.outer.spend(calls, tokens, usd)

    def seconds_left(self) -> float | None:
        """Return the seconds until the first deadline; None if there is none."""
        own = None if self.limits.timeout is None else self._began + self.limits.timeout - time.monotonic()
        outer = self.outer.seconds_left() if self.outer else None
        return min((left for left in (own, outer) if left is not None), default=None)

    def ended(self, *, answered: bool) -> None:
        """Note whether the run, and so far the one that it is part of, has an answer."""
        self.answered = answered
        if self.outer:
            self.outer.ended(answered=answered)

    def check_timeout(self) -> None:
        """Raise an error if the time was up before anything was answered."""
        if self.timed_out and not self.answered:
            raise RunTimeoutError(f"the run took longer than {self.limits.timeout:g} seconds (timeout)")

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Make this the budget of the runs and calls in this context, and in those copied from it."""
        token = _BUDGET.set(self)
        try:
            yield
        finally:
            _BUDGET.reset(token)

    @contextmanager
    def _under_way_with(self, count: int) -> Iterator[None]:
        with self._lock:
            if limit := self.reached():
                raise BudgetSpent(limit)
            self._under_way += count
        try:
            with self.outer._under_way_with(count) if self.outer else nullcontext():
                yield
        finally:
            with self._lock:
                self._under_way -= count


_BUDGET: ContextVar[Budget | None] = ContextVar("ragweave_budget", default=None)


def current_budget() -> Budget:
    """Return the budget of the run that this context is part of; one without limits if it has none."""
    return _BUDGET.get() or Budget(Limits())
