"""`make_labels`: what is done is read back, and the rest is labelled; nothing is done twice.

The questions are one stream, so that none waits for a batch's slowest. Errors of the model and of
its client fail a row; errors of our own end the session.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.cluster import NoNodeError
from ragweave.tools.journal import REFUSED, Slot, run_bounded
from ragweave.tools.models import status_of
from ragweave.tools.text.secrets import without_secrets
from ragweave.training.job import TrainingStoppedError
from ragweave.training.labels.cluster import LabelerSpec, rows_on_ray
from ragweave.training.labels.failures import is_model_error
from ragweave.training.labels.journal import LabelJournal, Labelled, finished, write_out
from ragweave.training.labels.labeler import (
    CachedCall,
    DroppedRow,
    LabelConfig,
    Labeler,
    LabelledRow,
    OnProgress,
)
from ragweave.training.labels.source import InvalidRow, Item, Source

MakeRow = Callable[[Item, CachedCall], Awaitable[LabelledRow | DroppedRow]]
_IN_A_ROW = 20
"""Failures one after the other (and at least twice the calls in flight) that end a session."""


@dataclass
class LabelRun:
    """A session under way."""

    source: Source
    labeler: Labeler
    config: LabelConfig
    on_progress: OnProgress
    limit: int | None
    total: int = 0
    make: MakeRow | None = None
    """What makes a row in the place of the labeler: the nodes of a cluster."""
    bad: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Rows that cannot be labelled, by data set and reason."""
    _failed: int = 0
    _in_a_row: int = 0

    def survey(self, *, skip_bad: bool) -> None:
        """Read the source through before any model is asked."""
        first = None
        for one in self._read():
            self.total += 1
            found = self._invalid(one)
            if found is not None:
                if not skip_bad:
                    raise UsageError(f"{found.error} (--skip-bad leaves such rows out)")
                first = first or found
                self.bad[found.data, found.reason] += 1
        if first is not None and self.bad.total() == self.total:
            raise UsageError(f"no row can be labelled; the first error: {first.error}")

    async def run(self, journal: LabelJournal) -> None:
        """Label the questions that are not finished."""
        done = sum(one.kind != "failed" for one in journal.entries.values()) + self.bad.total()
        if not self.config.retry_failed:
            self._failed = sum(one.kind == "failed" for one in journal.entries.values())
            done += self._failed
        self.on_progress(done, self.total, self._failed)

        async def one(item: Item, _slot: Slot) -> None:
            await self._label(item, journal)

        await run_bounded(self._unfinished(journal), one, concurrency=self.config.concurrency)

    def has_work(self, journal: LabelJournal) -> bool:
        """Say whether there are questions that are not finished."""
        return next(self._unfinished(journal), None) is not None

    def _unfinished(self, journal: LabelJournal) -> Iterator[Item]:
        for one in self._read():
            entry = journal.entries.get(one.index)
            again = entry is None or (entry.kind == "failed" and self.config.retry_failed)
            if again and isinstance(one, Item) and self._invalid(one) is None:
                yield one

    def _read(self) -> Iterator[Item | InvalidRow]:
        return self.source.read(gold=self.labeler.needs_gold, limit=self.limit)

    def _invalid(self, one: Item | InvalidRow) -> InvalidRow | None:
        if isinstance(one, InvalidRow):
            return one
        try:
            return self.labeler.check(one)
        except UsageError as error:
            return InvalidRow(one.index, one.data, "unreadable", str(error))

    async def _label(self, item: Item, journal: LabelJournal) -> None:
        try:
            made = await (self.make or self.labeler.make)(item, _cached_calls(item, journal))
        except (MissingExtraError, TrainingStoppedError, NoNodeError):
            raise
        except Exception as error:
            if not is_model_error(error):
                raise  # an error of ours is not a failed row, which --drop-failed would leave out
            first = not any(one.kind == "made" for one in journal.entries.values())
            if status_of(error) in REFUSED or (first and isinstance(error, UsageError)):
                raise  # every other row would meet it too
            self._fail(item, journal, error)
        else:
            self._in_a_row = 0
            if isinstance(made, LabelledRow):
                journal.add(item.index, item.data, "made", self._with_source(item, made))
            elif isinstance(made, DroppedRow):
                journal.add(item.index, item.data, "dropped", made.reason)
        done = len(journal.entries) + self.bad.total()
        self.on_progress(done, self.total, self._failed)

    def _with_source(self, item: Item, made: LabelledRow) -> dict[str, Any]:
        """Return a row that says where it came from and how it was labelled."""
        origin = {"data": item.data, **self.source.origin, "row": item.id}
        return {**made.row, "source": {**origin, **made.how}}

    def _fail(self, item: Item, journal: LabelJournal, error: Exception) -> None:
        text = without_secrets(" ".join(str(error).split())[:300])
        message = f"{type(error).__name__}: {text}"
        journal.add(item.index, item.data, "failed", f"{item.row.where}: {message}")
        self._failed += 1
        self._in_a_row += 1
        if self._in_a_row >= max(_IN_A_ROW, 2 * self.config.concurrency):
            raise ModelError(
                f"{self._in_a_row} model calls failed one after the other, the last with {message}; "
                "what is labelled is kept: fix the cause, then run the same command with --retry-failed"
            )


def _cached_calls(item: Item, journal: LabelJournal) -> CachedCall:
    async def call(name: str, make: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        kept = journal.replies.get(item.index, {}).get(name)
        if kept is None:
            kept = await make()
            journal.keep(item.index, name, kept)
        return kept

    return call


def make_labels(
    source: Source,
    labeler: Labeler | LabelerSpec,
    out: str | Path,
    *,
    ray: str | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    config: LabelConfig | None = None,
    on_progress: OnProgress = lambda _done, _total, _failed: None,
) -> Labelled:
    """Make training rows of a source's questions: `out`, whole, and `out.report.json` beside it.

    What is made stands in `out.partial` at once; a labelling that was stopped or killed resumes
    there and repeats no model call but those that were in flight.

    Args:
        source: The questions.
        labeler: What makes the rows; or by which parts it is made.
        out: The file to write, JSON lines (`.gz` too).
        ray: Address of a Ray cluster whose nodes make the rows (`ragweave.tools.cluster`): each
            makes its own labeler, so that it must be given by a `LabelerSpec`.
        limit: Only the first so many questions.
        skip_bad: Leave out rows that cannot be labelled, counted, instead of refusing them.
        config: Concurrency, and what becomes of failures.
        on_progress: Called after each question.

    Raises:
        UsageError: A row cannot be labelled (the text names file and line), nothing can, or the
            files that stand there were made with other settings.
        MissingExtraError: Ray is not installed.
        NoNodeError: All nodes were lost; what is labelled is kept.
        ModelError: Model calls failed; the rest is kept, and the text says how to resume.
        TrainingStoppedError: The file cannot be written; the same command resumes it.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    target = Path(out)
    config = config or LabelConfig()
    spec = labeler if isinstance(labeler, LabelerSpec) else None
    if ray is not None and spec is None:
        raise UsageError(
            "a labeler that holds models cannot be sent to the nodes of a Ray cluster: give a "
            "LabelerSpec, by which each node makes its own"
        )
    labeler = spec.make() if spec is not None else cast("Labeler", labeler)
    settings = {
        "labels": labeler.role,
        "source": source.hash or source.hub,
        "name": source.name,
        **({"fields": dict(source.settings)} if source.settings else {}),
        **({"limit": limit} if limit else {}),
        **labeler.settings(),
    }
    # With both flags the rows that failed were tried again before they were left out.
    again = config.retry_failed and not config.drop_failed
    done = finished(target, settings, skip_bad=skip_bad, retry_failed=again)
    if done is not None:
        return done
    run = LabelRun(source, labeler, config, on_progress, limit)
    run.survey(skip_bad=skip_bad)
    with LabelJournal(target, settings) as journal:
        if ray is not None and spec is not None:
            _run_to_end(_run_on_ray(run, journal, spec, ray))
        else:
            _run_to_end(run.run(journal))
        _check_failed(journal, config)
        return write_out(target, settings, labeler, journal, run.bad, run.total)


async def _run_on_ray(run: LabelRun, journal: LabelJournal, spec: LabelerSpec, ray: str) -> None:
    if not run.has_work(journal):
        return
    async with rows_on_ray(spec, ray, run.config.concurrency) as run.make:
        await run.run(journal)


def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, in a thread of its own where a loop is already running (notebooks).

    Ctrl-C reaches the calling thread alone, which then cancels the work and waits for its end.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    begun: Future[Callable[[], object]] = Future()

    async def cancellable() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        begun.set_result(lambda: loop.call_soon_threadsafe(task.cancel) if task else None)
        await work

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(asyncio.run, cancellable())
        try:
            running.result()
        except BaseException:
            if not running.done():
                with suppress(RuntimeError):  # its loop has ended meanwhile
                    begun.result()()
            raise


def _check_failed(journal: LabelJournal, config: LabelConfig) -> None:
    failed = [one.message for _, one in sorted(journal.entries.items()) if one.kind == "failed"]
    if failed and not config.drop_failed:
        raise ModelError(
            f"{len(failed)} of {len(journal.entries)} rows failed, the first with {failed[0]}; "
            f"the others are kept in {journal.path}: the same command with --retry-failed tries "
            "them again, with --drop-failed leaves them out"
        )
