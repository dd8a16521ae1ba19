"""The questions of a sitting as one stream: nothing waits for a batch's slowest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.models import status_of
from ragweave.tools.stream import REFUSED, Slot, run_bounded
from ragweave.training.errors import TrainingStoppedError
from ragweave.training.labels.faults import is_model_fault
from ragweave.training.labels.maker import Dropped, Made, Maker, Once
from ragweave.training.labels.partial import Partial
from ragweave.training.labels.sitting import Sitting, Tell
from ragweave.training.labels.source import Bad, Item, Source

_IN_A_ROW = 20
"""Failures one after the other (and at least twice the calls in flight) that end a sitting."""


@dataclass
class Stream:
    """A sitting under way."""

    source: Source
    maker: Maker
    sitting: Sitting
    tell: Tell
    limit: int | None
    total: int = 0
    bad: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rows that cannot be labelled, by data set and reason."""
    _failed: int = 0
    _in_a_row: int = 0

    def survey(self, *, skip_bad: bool) -> None:
        """Read the source through before any model is asked."""
        first = None
        for one in self._read():
            self.total += 1
            found = self._bad(one)
            if found is not None:
                if not skip_bad:
                    raise UsageError(f"{found.fault} (--skip-bad leaves such rows out)")
                first = first or found
                self.bad[found.data, found.reason] += 1
        if first is not None and self.bad.total() == self.total:
            raise UsageError(f"no row can be labelled; the first fault: {first.fault}")

    async def run(self, partial: Partial) -> None:
        """Make what is left."""
        done = sum(one.kind != "failed" for one in partial.entries.values()) + self.bad.total()
        if not self.sitting.retry_failed:
            self._failed = sum(one.kind == "failed" for one in partial.entries.values())
            done += self._failed
        self.tell(done, self.total, self._failed)

        async def one(item: Item, _slot: Slot) -> None:
            await self._one(item, partial)

        await run_bounded(self._left(partial), one, concurrency=self.sitting.concurrency)

    def _left(self, partial: Partial) -> Iterator[Item]:
        for one in self._read():
            entry = partial.entries.get(one.at)
            again = entry is None or (entry.kind == "failed" and self.sitting.retry_failed)
            if again and isinstance(one, Item) and self._bad(one) is None:
                yield one

    def _read(self) -> Iterator[Item | Bad]:
        return self.source.read(gold=self.maker.needs_gold, limit=self.limit)

    def _bad(self, one: Item | Bad) -> Bad | None:
        if isinstance(one, Bad):
            return one
        try:
            return self.maker.check(one)
        except UsageError as fault:
            return Bad(one.at, one.data, "unreadable", str(fault))

    async def _one(self, item: Item, partial: Partial) -> None:
        try:
            made = await self.maker.make(item, _once(item, partial))
        except (MissingExtraError, TrainingStoppedError):
            raise
        except Exception as fault:
            if not is_model_fault(fault):
                raise  # a fault of ours is no failed row, which --drop-failed would leave out
            first = not any(one.kind == "made" for one in partial.entries.values())
            if status_of(fault) in REFUSED or (first and isinstance(fault, UsageError)):
                raise  # every other row would meet it too
            self._fail(item, partial, fault)
        else:
            self._in_a_row = 0
            if isinstance(made, Made):
                partial.add(item.at, item.data, "made", self._sourced(item, made))
            elif isinstance(made, Dropped):
                partial.add(item.at, item.data, "dropped", made.reason)
        done = len(partial.entries) + self.bad.total()
        self.tell(done, self.total, self._failed)

    def _sourced(self, item: Item, made: Made) -> dict[str, Any]:
        """Return a row that says where it came from and how it was labelled."""
        origin = {"data": item.data, **self.source.origin, "row": item.id}
        return {**made.row, "source": {**origin, **made.how}}

    def _fail(self, item: Item, partial: Partial, fault: Exception) -> None:
        told = f"{type(fault).__name__}: {' '.join(str(fault).split())[:300]}"
        partial.add(item.at, item.data, "failed", f"{item.row.where}: {told}")
        self._failed += 1
        self._in_a_row += 1
        if self._in_a_row >= max(_IN_A_ROW, 2 * self.sitting.concurrency):
            raise ModelError(
                f"{self._in_a_row} model calls failed one after the other, the last with {told}; "
                "what is labelled is kept: mend it, then the same command with --retry-failed"
            )


def _once(item: Item, partial: Partial) -> Once:
    async def once(name: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        kept = partial.replies.get(item.at, {}).get(name)
        if kept is None:
            kept = await make()
            partial.keep(item.at, name, kept)
        return kept

    return once
