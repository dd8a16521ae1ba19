"""Turns between processes: one at a time by a lock on a file."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def in_turn(handle: int) -> Iterator[None]:
    """Hold the lock of an open file, waiting for it; a process that dies lets go of it."""
    fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
