"""The end of a file of lines: appended to whole or not at all, mended where a process was killed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ragweave.evaluation.runs.turns import in_turn


def append_lines(handle: int, lines: bytes) -> None:
    """Append lines and bring them to the disk (fsync).

    Args:
        handle: A file opened for reading and appending.
        lines: Whole lines with their breaks.

    Raises:
        OSError: They could not be written (disk full); the file then ends where it did.
    """
    with in_turn(handle):
        before = _mended(handle)
        try:
            written = os.write(handle, lines)
            if written != len(lines):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(handle)
        except OSError:
            os.ftruncate(handle, before)
            raise


def mend(path: Path) -> int:
    """Cut off a last line that a killed process left half written; return the bytes dropped.

    A record is durable only with its line break, so a question whose line lacks it is not done.
    """
    if not path.exists():
        return 0
    with path.open("r+b") as stream, in_turn(stream.fileno()):
        size = os.fstat(stream.fileno()).st_size
        kept = _mended(stream.fileno())
        os.fsync(stream.fileno())
    return size - kept


def _mended(handle: int) -> int:
    """Cut off a half-written last line; return the file's size."""
    size = os.fstat(handle).st_size
    kept = _last_break(handle, size)
    if kept != size:
        os.ftruncate(handle, kept)
    return kept


def _last_break(handle: int, size: int, block: int = 1 << 16) -> int:
    if size and os.pread(handle, 1, size - 1) == b"\n":
        return size
    end = size
    while end > 0:
        start = max(0, end - block)
        found = os.pread(handle, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0
