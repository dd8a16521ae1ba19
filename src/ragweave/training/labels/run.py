"""`make_labels`: what is done is read back, and the rest is labelled; nothing is done twice.

The questions are one stream, so that none waits for a batch's slowest. Errors of the model and of
its client fail a row; errors of our own end the session.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, RagweaveError, UsageError
from ragweave.tools.journal import REFUSED, Slot, run_bounded
from ragweave.tools.models import is_transient, status_of
from ragweave.tools.text.secrets import without_secrets
from ragweave.training.job import TrainingStoppedError
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

_NAMES = frozenset(
    {
        *("APIError", "OpenAIError", "AnthropicError", "GoogleAPIError", "BotoCoreError"),
        *("ClientError", "HTTPError", "RequestException", "LangChainException"),
        "OutOfMemoryError",
    }
)
"""Base classes of client libraries' errors, by name so that none must be imported."""


def is_model_error(error: BaseException) -> bool:
    """Say whether a row failed by its model, its server, or the client that speaks to it.

    These are errors that ragweave raises on purpose, HTTP errors, timeouts and lost connections,
    the error classes of client libraries, and whatever a LangChain integration raises: some turn
    an error that a server tells in its reply into a plain `ValueError`.
    """
    if isinstance(error, RagweaveError) or status_of(error) is not None or is_transient(error):
        return True
    return any(kind.__name__ in _NAMES for kind in type(error).__mro__) or _by_client(error)


def _by_client(error: BaseException) -> bool:
    """Tell whether the frame that raised is one of an integration (`langchain_openai`, …)."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    where = str(frames[-1].f_globals.get("__name__", "")).partition(".")[0] if frames else ""
    return where.startswith("langchain_") and where != "langchain_core"


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
            made = await self.labeler.make(item, _cached_calls(item, journal))
        except (MissingExtraError, TrainingStoppedError):
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
    labeler: Labeler,
    out: str | Path,
    *,
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
        labeler: What makes the rows.
        out: The file to write, JSON lines (`.gz` too).
        limit: Only the first so many questions.
        skip_bad: Leave out rows that cannot be labelled, counted, instead of refusing them.
        config: Concurrency, and what becomes of failures.
        on_progress: Called after each question.

    Raises:
        UsageError: A row cannot be labelled (the text names file and line), nothing can, or the
            files that stand there were made with other settings.
        ModelError: Model calls failed; the rest is kept, and the text says how to resume.
        TrainingStoppedError: The file cannot be written; the same command resumes it.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit must be at least 1, not {limit}")
    target = Path(out)
    config = config or LabelConfig()
    settings = {
        "labels": labeler.role,
        "source": source.hash or source.hub,
        "name": source.name,
        **({"fields": dict(source.settings)} if source.settings else {}),
        **({"limit": limit} if limit else {}),
        **labeler.settings(),
    }
    done = finished(target, settings, skip_bad=skip_bad)
    if done is not None:
        return done
    run = LabelRun(source, labeler, config, on_progress, limit)
    run.survey(skip_bad=skip_bad)
    with LabelJournal(target, settings) as journal:
        _run_to_end(run.run(journal))
        _check_failed(journal, config)
        return write_out(target, settings, labeler, journal, run.bad, run.total)


def _run_to_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, in a thread of its own where a loop is already running (notebooks)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def _check_failed(journal: LabelJournal, config: LabelConfig) -> None:
    failed = [one.message for _, one in sorted(journal.entries.items()) if one.kind == "failed"]
    if failed and not config.drop_failed:
        raise ModelError(
            f"{len(failed)} of {len(journal.entries)} rows failed, the first with {failed[0]}; "
            f"the others are kept in {journal.path}: the same command with --retry-failed tries "
            "them again, with --drop-failed leaves them out"
        )
