"""Labelling as one stream: what is done is read back, what is left is made, nothing twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.models import status_of
from ragweave.training.errors import TrainingStoppedError
from ragweave.training.labels.finish import Labelled, finished, write_out
from ragweave.training.labels.maker import Dropped, Made, Maker, Once
from ragweave.training.labels.partial import Partial
from ragweave.training.labels.source import Bad, Item, Source

_REFUSED = frozenset({401, 403, 404})
"""HTTP statuses that every other question would meet too: no key, no right, no such model."""

_IN_A_ROW = 20
"""Failures one after the other (and at least twice the calls in flight) that end a sitting."""

Tell = Callable[[int, int, int], None]
"""Called with questions done, questions in all, and failures so far."""


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """How a labelling is gone on with; none of it bears on the rows."""

    concurrency: int = 16
    """Questions in flight at once."""
    retry_failed: bool = False
    """Whether questions whose model calls failed are tried again."""
    drop_failed: bool = False
    """Whether the file is finished without them."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, not {self.concurrency}")


def make_labels(
    source: Source,
    maker: Maker,
    out: str | Path,
    *,
    limit: int | None = None,
    skip_bad: bool = False,
    sitting: Sitting | None = None,
    tell: Tell = lambda _done, _total, _failed: None,
) -> Labelled:
    """Make training rows of a source's questions: `out`, whole, and `out.report.json` beside it.

    What is made stands in `out.partial` at once; a labelling that was stopped or killed goes on
    from there and makes no model call twice, but for those that were in flight.

    Args:
        source: The questions.
        maker: What makes the rows.
        out: The file to write, JSON lines (`.gz` too).
        limit: Only the first so many questions.
        skip_bad: Leave out rows that cannot be labelled, counted, instead of refusing them.
        sitting: Concurrency, and what becomes of failures.
        tell: Called with how far it is.

    Raises:
        UsageError: A row cannot be labelled (the text names file and line), nothing can, or the
            files that stand there were made with other settings.
        ModelError: Model calls failed; the rest is kept and the text says how to go on.
        TrainingStoppedError: The file cannot be written; what is kept goes on.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    target = Path(out)
    sitting = sitting or Sitting()
    settings = {
        "labels": maker.role,
        "source": source.hash,
        "name": source.name,
        **({"fields": dict(source.settings)} if source.settings else {}),
        **({"limit": limit} if limit else {}),
        **maker.settings(),
    }
    done = finished(target, settings, skip_bad=skip_bad)
    if done is not None:
        return done
    work = _Work(source, maker, sitting, tell, limit)
    work.survey(skip_bad=skip_bad)
    with Partial(target, settings) as partial:
        _run(work.run(partial))
        _check_failed(partial, sitting)
        return write_out(target, settings, maker, partial, work.bad, work.total)


@dataclass
class _Work:
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
        gate = asyncio.Semaphore(self.sitting.concurrency)
        try:
            async with asyncio.TaskGroup() as group:
                for item in self._left(partial):
                    await gate.acquire()
                    task = group.create_task(self._one(item, partial))
                    task.add_done_callback(lambda _task: gate.release())
        except ExceptionGroup as faults:
            raise _first(faults) from None

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
            first = not any(one.kind == "made" for one in partial.entries.values())
            if status_of(fault) in _REFUSED or (first and isinstance(fault, UsageError)):
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
        origin = {"data": item.data, "sha256": self.source.hash, "row": item.id}
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


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, in a thread of its own where a loop is running already (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def _once(item: Item, partial: Partial) -> Once:
    async def once(name: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        kept = partial.replies.get(item.at, {}).get(name)
        if kept is None:
            kept = await make()
            partial.keep(item.at, name, kept)
        return kept

    return once


def _check_failed(partial: Partial, sitting: Sitting) -> None:
    failed = [one.told for _, one in sorted(partial.entries.items()) if one.kind == "failed"]
    if failed and not sitting.drop_failed:
        raise ModelError(
            f"{len(failed)} of {len(partial.entries)} rows failed, the first with {failed[0]}; "
            f"the others are kept in {partial.path}: the same command with --retry-failed tries "
            "them again, with --drop-failed leaves them out"
        )


def _first(faults: BaseExceptionGroup[Any]) -> BaseException:
    """Return the first fault of a group that is no group itself."""
    fault: BaseException = faults
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault
