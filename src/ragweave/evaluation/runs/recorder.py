"""Durable writes of a run, in batches: one thread a process writes to the run directory.

Results are lines of JSON, on the disk (fsync) before they are reported. The state of unfinished
questions (checkpoints, replies) is SQLite: once committed it survives a killed process, and a
power failure except for its last moments, which then cost some calls again. Several processes may
write to one directory; they take turns by file locks.

`RunCheckpoints` is LangGraph's checkpoint saver over the recorder. Only the newest checkpoint of a
thread is kept, since it serves to resume and not to go back. One is written only after a step in
which a model was paid; an interrupted step is repeated with the replies that the call broker kept
call by call. langgraph-checkpoint-sqlite commits every write by itself, which costs more than the
graphs' own work when many questions are in flight.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)

from ragweave.errors import RagweaveError
from ragweave.evaluation.runs.database import shared_database
from ragweave.tools.files import in_turn, open_file
from ragweave.tools.journal import Journal

_BATCH = 512
_PATIENCE = 0.05
"""Seconds that a checkpoint may wait for the next one, which often makes it unnecessary."""
_TABLES = """
CREATE TABLE IF NOT EXISTS checkpoints (
    thread TEXT PRIMARY KEY, id TEXT, kind TEXT, body BLOB, metadata TEXT) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS replies (
    thread TEXT, call TEXT, paid INTEGER, role TEXT, input_tokens INTEGER, output_tokens INTEGER,
    message TEXT, PRIMARY KEY (thread, call)) WITHOUT ROWID;
"""


Row = tuple[Any, ...]


class RecordingError(RagweaveError):
    """The run directory cannot be written (disk full, no permission); nothing recorded was lost."""


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
    """Writes what it is given, in order and in batches; a context manager."""

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

        It is skipped where the thread's next row, or its end, arrives before it was written.
        Should it fail, the next awaited write raises.
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
        """Drop the state of a finished question, after everything that was given before."""
        self._jobs.put(_Job(thread, forget=True))

    async def _await(self, job: _Job) -> None:
        if not self._thread.is_alive():  # a thread that a failed question left behind
            raise RecordingError(f"{self._results.path.parent}: the session has ended meanwhile")
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
            except Exception as error:  # noqa: BLE001 - who waits for the write raises it
                self._error = error
            if any(job.done is not None for job in jobs):
                self._loop.call_soon_threadsafe(_settle, jobs, self._error)

    def _batch(self) -> list[_Job | None]:
        """Return what there is to write, once someone waits for any of it or time is up."""
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
            f"{self._results.path.parent}: cannot be written ({error}); what is recorded is kept, "
            "and the run can be resumed once there is room"
        )


def connect(path: Path) -> sqlite3.Connection:
    """Open a run's state, and make its tables if there are none."""
    return shared_database(path, _TABLES, check_same_thread=False)


def _settle(jobs: Sequence[_Job], error: Exception | None) -> None:
    for job in jobs:
        if job.done is None or job.done.done():
            continue
        if error is None:
            job.done.set_result(None)
        else:
            job.done.set_exception(error)


_PUT = "INSERT OR REPLACE INTO checkpoints VALUES (?, ?, ?, ?, ?)"
_RENAMED = {"answer_kind": "resolved_answer_type", "stopped": "truncated"}
"""Keys of the state under the names that earlier versions gave them."""


def _upgraded(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint under today's keys of the state."""
    values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
    if "stopped" in values:
        values["stopped"] = bool(values["stopped"])
    for old, new in _RENAMED.items():
        if old in values:
            values[new] = values.pop(old)
        if old in versions:
            versions[new] = versions.pop(old)
    return checkpoint


class Putter(Protocol):
    """What writes checkpoints: the run's `Recorder`, or on a node what sends them to it."""

    def put(self, thread: str, sql: str, make: Callable[[], Row | None]) -> None:
        """Run a statement for the row that `make` returns, soon; don't wait for it."""
        ...


class RunCheckpoints(BaseCheckpointSaver[int]):
    """A checkpoint saver for runs; async only."""

    def __init__(self, recorder: Putter, state: sqlite3.Connection, paid: set[str]) -> None:
        """Make a saver.

        Args:
            recorder: What writes.
            state: What is read from: a connection of this thread.
            paid: Threads that got a reply since their last checkpoint.
        """
        super().__init__()
        self._recorder, self._state, self._paid = recorder, state, paid
        rows = state.execute("SELECT thread FROM checkpoints UNION SELECT thread FROM replies")
        self.unfinished = {row[0] for row in rows}
        """Threads that an earlier process left unfinished."""

    def row(self, thread: str) -> Row | None:
        """Return the newest checkpoint of a thread as a row, or None."""
        query = "SELECT thread, id, kind, body, metadata FROM checkpoints WHERE thread = ?"
        found: Row | None = self._state.execute(query, (thread,)).fetchone()
        return found

    def keep(self, row: Row) -> None:
        """Write a checkpoint that another process made into a row, soon."""
        self._recorder.put(row[0], _PUT, lambda: row)

    def take_over(self, thread: str, row: Row | None) -> None:
        """Go on with a thread that another process left unfinished, from its checkpoint."""
        self.unfinished.add(thread)
        with self._state:
            self._state.execute("DELETE FROM checkpoints WHERE thread = ?", (thread,))
            if row is not None:
                self._state.execute(_PUT, row)

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the newest checkpoint of a thread that an earlier process left, or None."""
        thread = str(config["configurable"]["thread_id"])
        if thread not in self.unfinished:
            return None
        row = self.row(thread)
        if row is None:
            return None
        _, key, kind, body, metadata = row
        place: RunnableConfig = {
            "configurable": {"thread_id": thread, "checkpoint_ns": "", "checkpoint_id": key}
        }
        return CheckpointTuple(
            place,
            _upgraded(self.serde.loads_typed((kind, body))),
            json.loads(metadata),
            None,
            [],
        )

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Replace the thread's last checkpoint, if a reply came since."""
        del new_versions
        thread = str(config["configurable"]["thread_id"])
        if thread in self._paid:
            self._paid.discard(thread)
            kept = json.dumps({"step": metadata["step"], "source": metadata["source"]})
            make = functools.partial(self._made, thread, checkpoint, kept)
            self._recorder.put(thread, _PUT, make)
        return {
            "configurable": {
                "thread_id": thread,
                "checkpoint_ns": "",
                "checkpoint_id": checkpoint["id"],
            }
        }

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Keep nothing: an interrupted step starts again, with its replies replayed."""

    def _made(self, thread: str, checkpoint: Checkpoint, metadata: str) -> Row | None:
        """Return a checkpoint's row, or None where its state cannot be serialized.

        A foreign retriever may leave objects in a passage's metadata. Such a question starts
        again, with its replies replayed.
        """
        try:
            kind, body = self.serde.dumps_typed(checkpoint)
        except TypeError:
            return None
        return (thread, checkpoint["id"], kind, body, metadata)
