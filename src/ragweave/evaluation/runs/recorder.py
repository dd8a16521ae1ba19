"""Durable writes of a run, many in one: a process's one thread that writes to the run directory.

Results are lines of JSON, brought to the disk (fsync) before anyone is told so. The state of
unfinished questions (checkpoints, replies) is SQLite; it survives a killed process as soon as it
is committed, and the loss of power but for its last moments, which then cost some calls again.
Several processes may write to one directory: they take turns by file locks.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave.errors import RagweaveError
from ragweave.tools.journal import Journal
from ragweave.tools.locks import in_turn, open_file

_BATCH = 512
_PATIENCE = 0.05
"""Seconds that a checkpoint may wait for what comes after it, which often makes it needless."""
_TABLES = """
CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT PRIMARY KEY, id TEXT, kind TEXT, body BLOB, metadata TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (
    thread TEXT, call TEXT, paid INTEGER, role TEXT, input_tokens INTEGER, output_tokens INTEGER,
    message TEXT, PRIMARY KEY (thread, call)) WITHOUT ROWID;
"""


Row = tuple[Any, ...]


class RecordingError(RagweaveError):
    """The run directory cannot be written (disk full, no right); nothing recorded was lost."""


@dataclass(frozen=True, slots=True)
class _Job:
    thread: str
    """The question and system that it is about."""
    done: asyncio.Future[None] | None = None
    sql: str = ""
    rows: Sequence[Row] = ()
    make: Callable[[], Row | None] | None = None
    """What makes the row once it is to be written."""
    line: bytes = b""
    forget: bool = False


class Recorder:
    """Writes what it is given in order, in batches; a context manager."""

    def __init__(self, results: Path, state: Path) -> None:
        """Name the file of results (JSON lines) and of the state (SQLite)."""
        self._results, self._state_path = Journal(results), state
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ragweave-recorder", daemon=True)
        self._error: Exception | None = None

    def __enter__(self) -> Recorder:
        """Open the files.

        Raises:
            RecordingError: They cannot be opened.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._results.open()
            self._turn = open_file(self._state_path.with_suffix(".lock"))
            self._state = connect(self._state_path)
        except (OSError, sqlite3.Error) as error:
            raise self._recording_error(error) from error
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left and close the files."""
        self._jobs.put(None)
        self._thread.join()
        self._results.close()
        os.close(self._turn)
        self._state.close()

    async def write(self, thread: str, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row; return once it is committed.

        Raises:
            RecordingError: It could not be written.
        """
        await self._await(_Job(thread, self._loop.create_future(), sql=sql, rows=rows))

    def put(self, thread: str, sql: str, make: Callable[[], Row | None]) -> None:
        """Run a statement for the row that `make` returns, soon; don't wait for it.

        It is left out where the thread's next one, or its end, is there before it was written.
        Should it fail, whatever is waited for next says so.
        """
        self._jobs.put(_Job(thread, sql=sql, make=make))

    async def append(self, thread: str, line: bytes, *, forget: bool = False) -> None:
        """Append a line to the results; return once it is on the disk.

        Args:
            thread: The question and system that it is about.
            line: The line with its break (`line_of`).
            forget: Whether to drop the question's state then.

        Raises:
            RecordingError: It could not be written; the file then ends at the line before.
        """
        done = self._loop.create_future()
        await self._await(_Job(thread, done, line=line, forget=forget))

    def forget(self, thread: str) -> None:
        """Drop the state of a question that is finished, after all that was given before."""
        self._jobs.put(_Job(thread, forget=True))

    async def _await(self, job: _Job) -> None:
        self._jobs.put(job)
        try:
            if job.done is not None:
                await job.done
        except (OSError, sqlite3.Error) as error:
            raise self._recording_error(error) from error

    def _work(self) -> None:
        ended = False
        while not ended:
            batch = self._batch()
            ended = None in batch
            jobs = [job for job in batch if job is not None]
            try:
                self._write(jobs)
            except (OSError, sqlite3.Error) as error:
                self._error = error
            if any(job.done is not None for job in jobs):
                self._loop.call_soon_threadsafe(_settle, jobs, self._error)

    def _batch(self) -> list[_Job | None]:
        """Return what there is to write, once someone waits for any of it or patience ends."""
        batch = [self._jobs.get()]
        until = time.monotonic() + _PATIENCE
        while len(batch) < _BATCH:
            waited_for = any(job is None or job.done is not None for job in batch)
            left = 0.0 if waited_for else until - time.monotonic()
            try:
                batch.append(self._jobs.get(block=left > 0, timeout=max(left, 0.0)))
            except queue.Empty:
                break
        return batch

    def _write(self, jobs: Sequence[_Job]) -> None:
        """Write a batch; once a write has failed, none follows it."""
        if self._error is not None:
            return
        last = {job.thread: job for job in jobs if job.make is not None or job.forget}
        self._change([job for job in jobs if job.rows or last.get(job.thread) is job])
        lines = b"".join(job.line for job in jobs)
        if lines:
            self._results.append(lines)
        self._drop([(job.thread,) for job in jobs if job.forget])

    def _change(self, jobs: Sequence[_Job]) -> None:
        rows = [(job.sql, job.rows) for job in jobs if job.rows]
        made = [(job.sql, job.make()) for job in jobs if job.make is not None]
        rows += [(sql, [row]) for sql, row in made if row is not None]
        if not rows:
            return
        with in_turn(self._turn), self._state:
            for sql, listed in rows:
                self._state.executemany(sql, listed)

    def _drop(self, threads: Sequence[tuple[str]]) -> None:
        if not threads:
            return
        with in_turn(self._turn), self._state:
            for table in ("checkpoints", "replies"):
                self._state.executemany(f"DELETE FROM {table} WHERE thread = ?", threads)  # noqa: S608

    def _recording_error(self, error: BaseException) -> RecordingError:
        return RecordingError(
            f"{self._results.path.parent}: cannot be written ({error}); what is recorded stands, "
            "and the run can be resumed once there is room"
        )


def connect(path: Path) -> sqlite3.Connection:
    """Open a run's state, making its tables where there are none."""
    state = sqlite3.connect(path, check_same_thread=False, timeout=30)
    state.execute("PRAGMA journal_mode = WAL")
    state.execute("PRAGMA synchronous = NORMAL")
    state.executescript(_TABLES)
    return state


def _settle(jobs: Sequence[_Job], error: Exception | None) -> None:
    for job in jobs:
        if job.done is None or job.done.done():
            continue
        if error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(error)
