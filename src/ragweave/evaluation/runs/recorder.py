"""Durable writes of a run, many in one: the thread that alone writes to the run directory.

Results are lines of JSON, brought to the disk (fsync) before anyone is told so. The state of
unfinished questions (checkpoints, replies) is SQLite; it survives a killed process as soon as it
is committed, and the loss of power but for its last moments, which then cost some calls again.
"""

from __future__ import annotations

import asyncio
import errno
import os
import queue
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave.errors import RagweaveError

_BATCH = 512
_TABLES = """
CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT PRIMARY KEY, id TEXT, kind TEXT, body BLOB, metadata TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS writes (
    thread TEXT, checkpoint TEXT, task TEXT, place INTEGER, channel TEXT, kind TEXT, body BLOB,
    PRIMARY KEY (thread, checkpoint, task, place)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (
    thread TEXT, call TEXT, paid INTEGER, role TEXT, input_tokens INTEGER, output_tokens INTEGER,
    message TEXT, PRIMARY KEY (thread, call)) WITHOUT ROWID;
"""


class RecordingError(RagweaveError):
    """The run directory cannot be written (disk full, no right); nothing recorded was lost."""


@dataclass(frozen=True, slots=True)
class _Job:
    done: asyncio.Future[None] | None
    sql: str = ""
    rows: Sequence[tuple[Any, ...]] = ()
    line: bytes = b""
    forget: str = ""


class Recorder:
    """Writes what it is given in order, in batches; a context manager."""

    def __init__(self, results: Path, state: Path) -> None:
        """Name the file of results (JSON lines) and of the state (SQLite)."""
        self._results_path, self._state_path = results, state
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="ragweave-recorder", daemon=True)
        self._fault: Exception | None = None

    def __enter__(self) -> Recorder:
        """Open the files.

        Raises:
            RecordingError: They cannot be opened.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._results = os.open(self._results_path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            self._state = connect(self._state_path)
        except (OSError, sqlite3.Error) as fault:
            raise self._told(fault) from fault
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Write what is left and close the files."""
        self._jobs.put(None)
        self._thread.join()
        os.close(self._results)
        self._state.close()

    async def write(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row; return once it is committed.

        Raises:
            RecordingError: It could not be written.
        """
        await self._await(_Job(self._loop.create_future(), sql=sql, rows=rows))

    def put(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run a statement for each row, after all that was given before; don't wait for it.

        Should it fail, whatever is waited for next says so.
        """
        self._jobs.put(_Job(None, sql=sql, rows=rows))

    async def append(self, line: str) -> None:
        """Append a line to the results; return once it is on the disk.

        Raises:
            RecordingError: It could not be written; the file then ends at the line before.
        """
        await self._await(_Job(self._loop.create_future(), line=line.encode() + b"\n"))

    def forget(self, thread: str) -> None:
        """Drop the state of a question that is finished, after all that was given before."""
        self._jobs.put(_Job(None, forget=thread))

    async def _await(self, job: _Job) -> None:
        self._jobs.put(job)
        try:
            if job.done is not None:
                await job.done
        except (OSError, sqlite3.Error) as fault:
            raise self._told(fault) from fault

    def _work(self) -> None:
        ended = False
        while not ended:
            batch = [self._jobs.get()]
            while len(batch) < _BATCH and not self._jobs.empty():
                batch.append(self._jobs.get())
            ended = None in batch
            jobs = [job for job in batch if job is not None]
            try:
                self._write(jobs)
            except (OSError, sqlite3.Error) as fault:
                self._fault = fault
            if any(job.done is not None for job in jobs):
                self._loop.call_soon_threadsafe(_settle, jobs, self._fault)

    def _write(self, jobs: Sequence[_Job]) -> None:
        """Write a batch; once a write has failed, none follows it."""
        if self._fault is not None:
            return
        with self._state:
            for job in jobs:
                if job.sql:
                    self._state.executemany(job.sql, job.rows)
        self._append(b"".join(job.line for job in jobs))
        with self._state:
            for job in jobs:
                if job.forget:
                    for table in ("checkpoints", "writes", "replies"):
                        self._state.execute(f"DELETE FROM {table} WHERE thread = ?", (job.forget,))  # noqa: S608

    def _append(self, lines: bytes) -> None:
        if not lines:
            return
        before = os.fstat(self._results).st_size
        try:
            written = os.write(self._results, lines)
            if written != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._results)
        except OSError:
            os.ftruncate(self._results, before)
            raise

    def _told(self, fault: BaseException) -> RecordingError:
        return RecordingError(
            f"{self._results_path.parent}: cannot be written ({fault}); what is recorded stands, "
            "and the run can be resumed once there is room"
        )


def connect(path: Path) -> sqlite3.Connection:
    """Open a run's state, making its tables where there are none."""
    state = sqlite3.connect(path, check_same_thread=False, timeout=30)
    state.execute("PRAGMA journal_mode = WAL")
    state.execute("PRAGMA synchronous = NORMAL")
    state.executescript(_TABLES)
    return state


def _settle(jobs: Sequence[_Job], fault: Exception | None) -> None:
    for job in jobs:
        if job.done is None or job.done.done():
            continue
        if fault is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(fault)
