"""Locks between processes on files; the system drops them when their holder dies.

They are `flock` on POSIX and `LockFileEx` on Windows, by the library filelock. On Windows a held
lock also keeps other processes from reading the file's first byte, so a holder signs behind it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import lock_descriptor, unlock_descriptor

from ragweave.errors import LockedError

try:
    import fcntl
except ImportError:  # Windows: its readers take turns, as its writers do
    _SHARED = False
else:
    _SHARED = True

_WINDOWS = os.name == "nt"
_PAUSE = 0.005
"""Seconds between two tries for a lock that is held for moments only."""


@contextmanager
def hold(path: Path, *, wait: float = 0.0, remove: bool = False) -> Iterator[int]:
    """Hold the lock of a file, which is made where it is missing, and sign it.

    Args:
        path: The lock's file; nothing else is kept in it.
        wait: Seconds to wait for another holder.
        remove: Whether to remove the file at the end.

    Yields:
        The file descriptor. A child process that inherits it holds the lock too, also where its
        parent was killed.

    Raises:
        LockedError: Another holds it; `holder` is its process id.
        OSError: The file cannot be written.
    """
    handle = _locked(path, time.monotonic() + wait)
    try:
        _sign(handle)
        yield handle
    finally:
        if remove:
            with suppress(PermissionError):  # on Windows an open file stays
                path.unlink(missing_ok=True)
        close_file(handle)


@contextmanager
def in_turn(handle: int) -> Iterator[None]:
    """Hold the lock of an open file, waiting for it; for moments only."""
    lock_descriptor(handle, poll_interval=_PAUSE)
    try:
        yield
    finally:
        unlock_descriptor(handle)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Keep writers (`writing`) of a file's data away; other readers may come. Waits.

    A file that is missing has no writer yet.
    """
    try:
        handle = os.open(path, os.O_RDWR if _WINDOWS else os.O_RDONLY)
    except FileNotFoundError:
        yield
        return
    try:
        if _SHARED:
            fcntl.flock(handle, fcntl.LOCK_SH)
        else:
            lock_descriptor(handle, poll_interval=_PAUSE)
        yield
    finally:
        close_file(handle)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Keep readers and other writers of a file's data away. Waits."""
    handle = open_file(path)
    try:
        with in_turn(handle):
            yield
    finally:
        os.close(handle)


def claim(handle: int, path: Path) -> None:
    """Lock a file of data for as long as it stays open.

    Raises:
        LockedError: Another holds it.
    """
    if not lock_descriptor(handle, blocking=False):
        raise LockedError(path, "")


def open_file(path: Path, *, append: bool = False) -> int:
    """Open a file for reading and writing, made where it is missing; return its descriptor."""
    flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if append else 0)
    return os.open(path, flags | getattr(os, "O_BINARY", 0), 0o644)


def close_file(handle: int) -> None:
    """Close a file that may be locked.

    To close it drops the lock, but for processes that inherited the descriptor; on Windows, where
    there are none, the lock may outlast it for a moment.
    """
    if _WINDOWS:
        with suppress(OSError):  # it was not locked
            unlock_descriptor(handle)
    os.close(handle)


def _locked(path: Path, until: float) -> int:
    """Open a file and lock it; return its descriptor."""
    while True:
        handle = open_file(path)
        try:
            while not lock_descriptor(handle, blocking=False):
                if time.monotonic() >= until:
                    raise LockedError(path, _holder(handle))
                time.sleep(0.05)
            if os.fstat(handle).st_nlink:
                return handle
        except BaseException:
            os.close(handle)
            raise
        close_file(
            handle
        )  # its holder removed it meanwhile: another file stands there now, or none


def _sign(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, b"\n%d" % os.getpid())


def _holder(handle: int) -> str:
    os.lseek(handle, 1 if _WINDOWS else 0, os.SEEK_SET)
    return os.read(handle, 32).decode("ascii", "replace").strip()
