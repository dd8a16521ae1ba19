"""The questions of a session as one stream: nothing waits for a batch's slowest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.models import status_of
from ragweave.tools.stream import REFUSED, Slot, run_bounded
from ragweave.training.errors import TrainingStoppedError
from ragweave.training.labels.faults import is_model_error
from ragweave.training.labels.maker import Dropped, Labeler, Made, Once
from ragweave.training.labels.partial import LabelJournal
from ragweave.training.labels.sitting import LabelConfig, OnProgress
from ragweave.training.labels.source import Bad, Item, Source

_IN_A_ROW = 20
"""Failures one after the other (and at least twice the calls in flight) that end a session."""


@dataclass
class Stream:
    """A session under way."""

    source: Source
    labeler: Labeler
    config: LabelConfig
    on_progress: OnProgress
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
                    raise UsageError(f"{found.error} (--skip-bad leaves such rows out)")
                first = first or found
                self.bad[found.data, found.reason] += 1
        if first is not None and self.bad.total() == self.total:
            raise UsageError(f"no row can be labelled; the first error: {first.error}")

    async def run(self, journal: LabelJournal) -> None:
        """Make what is left."""
        done = sum(one.kind != "failed" for one in journal.entries.values()) + self.bad.total()
        if not self.config.retry_failed:
            self._failed = sum(one.kind == "failed" for one in journal.entries.values())
            done += self._failed
        self.on_progress(done, self.total, self._failed)

        async def one(item: Item, _slot: Slot) -> None:
            await self._one(item, journal)

        await run_bounded(self._left(journal), one, concurrency=self.config.concurrency)

    def _left(self, journal: LabelJournal) -> Iterator[Item]:
        for one in self._read():
            entry = journal.entries.get(one.at)
            again = entry is None or (entry.kind == "failed" and self.config.retry_failed)
            if again and isinstance(one, Item) and self._bad(one) is None:
                yield one

    def _read(self) -> Iterator[Item | Bad]:
        return self.source.read(gold=self.labeler.needs_gold, limit=self.limit)

    def _bad(self, one: Item | Bad) -> Bad | None:
        if isinstance(one, Bad):
            return one
        try:
            return self.labeler.check(one)
        except UsageError as error:
            return Bad(one.at, one.data, "unreadable", str(error))

    async def _one(self, item: Item, journal: LabelJournal) -> None:
        try:
            made = await self.labeler.make(item, _once(item, journal))
        except (MissingExtraError, TrainingStoppedError):
            raise
        except Exception as error:
            if not is_model_error(error):
                raise  # an error of ours is no failed row, which --drop-failed would leave out
            first = not any(one.kind == "made" for one in journal.entries.values())
            if status_of(error) in REFUSED or (first and isinstance(error, UsageError)):
                raise  # every other row would meet it too
            self._fail(item, journal, error)
        else:
            self._in_a_row = 0
            if isinstance(made, Made):
                journal.add(item.at, item.data, "made", self._sourced(item, made))
            elif isinstance(made, Dropped):
                journal.add(item.at, item.data, "dropped", made.reason)
        done = len(journal.entries) + self.bad.total()
        self.on_progress(done, self.total, self._failed)

    def _sourced(self, item: Item, made: Made) -> dict[str, Any]:
        """Return a row that says where it came from and how it was labelled."""
        origin = {"data": item.data, **self.source.origin, "row": item.id}
        return {**made.row, "source": {**origin, **made.how}}

    def _fail(self, item: Item, journal: LabelJournal, error: Exception) -> None:
        message = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        journal.add(item.at, item.data, "failed", f"{item.row.where}: {message}")
        self._failed += 1
        self._in_a_row += 1
        if self._in_a_row >= max(_IN_A_ROW, 2 * self.config.concurrency):
            raise ModelError(
                f"{self._in_a_row} model calls failed one after the other, the last with {message}; "
                "what is labelled is kept: mend it, then the same command with --retry-failed"
            )


def _once(item: Item, journal: LabelJournal) -> Once:
    async def once(name: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        kept = journal.replies.get(item.at, {}).get(name)
        if kept is None:
            kept = await make()
            journal.keep(item.at, name, kept)
        return kept

    return once
