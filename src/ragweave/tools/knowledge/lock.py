"""Locks between processes; the system drops them when their holder dies (POSIX)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragweave.errors import KnowledgeBaseError


@contextmanager
def write_lock(folder: Path) -> Iterator[None]:
    """Hold the one right to write to the knowledge base in `folder`.

    Raises:
        KnowledgeBaseError: Another writer, of this process or another, holds it.
    """
    handle = os.open(folder / "write.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(handle, 32).decode("ascii", "replace").strip() or "unknown"
            raise KnowledgeBaseError(
                f"{folder} is being written by process {holder}; try again when it has finished"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


@contextmanager
def vector_lock(folder: Path, *, write: bool) -> Iterator[None]:
    """Keep readers of other processes away while one changes the vector files.

    Embedded Chroma guards its files within a process only. Waits; the holds are short.
    """
    path = folder / "vectors.lock"
    if not write and not path.exists():
        yield
        return
    flags = os.O_RDWR | os.O_CREAT if write else os.O_RDONLY
    handle = os.open(path, flags | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX if write else fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)
