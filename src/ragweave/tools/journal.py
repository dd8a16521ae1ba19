"""A durable journal of JSON lines, and bounded concurrent work that it can record.

A journal is only appended to, so that work resumes where it stopped. A line counts once its line
break is written: a half-written last line, left by a killed process, is cut off before anything is
appended. Resuming means reading the lines back and doing the jobs that none of them records.

`run_bounded` runs many jobs as one stream, a fixed number at once, so that nothing waits for the
slowest job of a batch.
"""

from __future__ import annotations

import asyncio
import errno
import json
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import nullcontext
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar

from ragweave.errors import UsageError
from ragweave.tools.files import close_file, in_turn, lock_open_file, open_file, parse_json

REFUSED = frozenset({401, 403, 404})
"""HTTP statuses that every other job would get too: no key, no permission, no such model."""

Job = TypeVar("Job")


class Slot:
    """A job's place among those that run at once."""

    def __init__(self, room: asyncio.Semaphore) -> None:
        """Take the place; the caller has acquired the semaphore."""
        self._room = room
        self._taken = True

    def leave(self) -> None:
        """Let the next job start while this one is being finished; calling it again is a no-op."""
        if self._taken:
            self._taken = False
            self._room.release()


async def run_bounded(
    jobs: Iterable[Job],
    work: Callable[[Job, Slot], Awaitable[None]],
    *,
    concurrency: int,
    finishing: int = 0,
    may_begin: Callable[[], bool] = lambda: True,
) -> bool:
    """Do all jobs, in order of beginning, at most `concurrency` at once.

    Args:
        jobs: The jobs, consumed as slots become free, so the iterable may be endless or lazy.
        work: Does one job. It may leave its slot early.
        concurrency: How many run at once.
        finishing: How many more may have left their slots without being done (recording, say).
        may_begin: Called before each job, for budgets: False ends the stream once the running
            jobs are done.

    Returns:
        Whether every job was done; False: `may_begin` returned False.

    Raises:
        BaseException: The first error that a job raised; running jobs were cancelled.
    """
    slots = asyncio.Semaphore(concurrency)
    room = asyncio.Semaphore(concurrency + finishing)

    async def one(job: Job) -> None:
        slot = Slot(slots)
        try:
            await work(job, slot)
        finally:
            slot.leave()

    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                await room.acquire()
                await slots.acquire()
                if not may_begin():
                    return False
                task = group.create_task(one(job))
                task.add_done_callback(lambda _task: room.release())
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
    return True


def first_error(errors: BaseException) -> BaseException:
    """Return the first error of a group (of groups) of several tasks; any other error as it is."""
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    return errors


class Line(NamedTuple):
    """A line of a journal."""

    number: int
    """From 1."""
    offset: int
    """Where it begins, in bytes."""
    record: Any
    """The JSON value that it holds."""


class DamagedLineError(UsageError):
    """A line of a journal that is not JSON, or not a record of the expected form."""

    def __init__(self, path: Path, number: int, why: str, *, advice: str = "") -> None:
        """Name the line, what is wrong with it, and what to do."""
        super().__init__(f"{path}:{number}: is damaged ({why})" + (f"; {advice}" if advice else ""))


class Journal:
    """An append-only file of JSON lines.

    Several processes may append to one, in turn; or one process opens it `alone`, which locks the
    others out until it closes the file.

    Example:
        >>> import tempfile
        >>> journal = Journal(Path(tempfile.mkdtemp()) / "done.jsonl")
        >>> journal.open()
        >>> offset = journal.append(line_of({"at": 0, "answer": "Paris"}))
        >>> [line.record["at"] for line in journal.lines()]
        [0]
        >>> journal.close()
    """

    def __init__(self, path: Path, *, sync_every: float = 0.0) -> None:
        """Name the file.

        Args:
            path: The file; made when the journal is opened.
            sync_every: Seconds between two calls of fsync. What is appended survives a killed
                process at once; a loss of power may cost what was appended since the last call.
        """
        self.path = path
        self._sync_every = sync_every
        self._synced = -sync_every
        self._unsynced = False
        self._handle = -1
        self._alone = False

    def open(self, *, alone: bool = False) -> None:
        """Open the file for appending, and cut off a half-written last line.

        Raises:
            LockedError: `alone`, and another process has it open so.
            OSError: It cannot be opened.
        """
        self._handle, self._alone = open_file(self.path, append=True), alone
        try:
            if alone:
                lock_open_file(self._handle, self.path)
            with self._turn():
                _repaired(self._handle)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Flush to disk and close the file; closing it again is a no-op."""
        if self._handle >= 0:
            try:
                if self._unsynced:
                    os.fsync(self._handle)
            finally:
                close_file(self._handle)
        self._handle = -1

    def append(self, lines: bytes) -> int:
        """Append lines, all of them or none; return where the first begins, in bytes.

        Args:
            lines: Whole lines with their breaks (`line_of`).

        Raises:
            OSError: They could not be written (disk full); the file is as it was before.
        """
        with self._turn():
            before = _repaired(self._handle)
            try:
                _write(self._handle, lines)
                self._sync()
            except OSError:
                os.ftruncate(self._handle, before)
                raise
        return before

    def lines(self) -> Iterator[Line]:
        """Yield the lines in order of writing.

        Raises:
            DamagedLineError: A line holds no JSON.
        """
        yield from _parsed(self._from(0), self.path)

    def record_at(self, offset: int) -> Any:
        """Return what the line that begins at `offset` holds."""
        return json.loads(self._from(offset).readline())

    def clear(self) -> None:
        """Drop all lines."""
        os.ftruncate(self._handle, 0)

    def remove(self) -> None:
        """Delete the file, once its content is stored elsewhere."""
        if os.name == "nt":
            self.close()  # an open file cannot be deleted there
        self.path.unlink(missing_ok=True)

    def _turn(self) -> Any:
        return nullcontext() if self._alone else in_turn(self._handle)

    def _sync(self) -> None:
        now = time.monotonic()
        self._unsynced = now - self._synced < self._sync_every
        if not self._unsynced:
            os.fsync(self._handle)
            self._synced = now

    def _from(self, offset: int) -> BufferedReader:
        # The same open file: another one might not be let in.
        return BufferedReader(_Bytes(lambda: self._handle, offset))


class _Bytes(RawIOBase):
    """The bytes of an open file from a place on, whatever moves the file's own position."""

    def __init__(self, handle: Callable[[], int], offset: int) -> None:
        self._handle = handle  # asked each time: a closed file's number may be another's by then
        self._offset = offset

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = _read(self._handle(), self._offset, len(buffer))
        buffer[: len(found)] = found
        self._offset += len(found)
        return len(found)


def line_of(record: Any, default: Callable[[Any], Any] | None = None) -> bytes:
    """Return a record as a line: JSON, UTF-8; half characters become question marks.

    Args:
        record: A JSON value.
        default: Makes a JSON value of anything else, as `json.dumps` takes it.
    """
    text = json.dumps(record, ensure_ascii=False, default=default)
    return f"{text}\n".encode("utf-8", "replace")


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a journal that others may be writing; none where the file is missing.

    Raises:
        DamagedLineError: A line holds no JSON.
    """
    if path.exists():
        with path.open("rb") as stream:
            yield from _parsed(stream, path)


def repair(path: Path) -> int:
    """Cut off a half-written last line, left by a killed process; return the bytes dropped."""
    if not path.exists():
        return 0
    handle = open_file(path, append=True)
    try:
        with in_turn(handle):
            size = os.fstat(handle).st_size
            kept = _repaired(handle)
            os.fsync(handle)
    finally:
        os.close(handle)
    return size - kept


def _parsed(stream: BinaryIO, path: Path) -> Iterator[Line]:
    offset = 0
    for number, line in enumerate(stream, start=1):
        if not line.endswith(b"\n"):
            return
        try:
            record = parse_json(line)
        except ValueError as error:
            raise DamagedLineError(path, number, str(error)) from error
        yield Line(number, offset, record)
        offset += len(line)


def _write(handle: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        written = os.write(handle, left)
        if not written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left = left[written:]


def _repaired(handle: int) -> int:
    """Cut off a half-written last line; return the file's size."""
    size = os.fstat(handle).st_size
    kept = _last_break(handle, size)
    if kept != size:
        os.ftruncate(handle, kept)
    return kept


def _last_break(handle: int, size: int, block: int = 1 << 16) -> int:
    if size and _read(handle, size - 1, 1) == b"\n":
        return size
    end = size
    while end > 0:
        start = max(0, end - block)
        found = _read(handle, start, end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


_POSITION = threading.Lock()


def _read(handle: int, offset: int, count: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(handle, count, offset)
    with _POSITION:  # Windows
        os.lseek(handle, offset, os.SEEK_SET)
        return os.read(handle, count)
