"""Atomic writes of files and folders, and file locks between processes.

A write survives a kill or a loss of power whole or not at all: the new content goes to a temporary
name beside the target, is flushed to disk (fsync), and is renamed. A reader sees the old content
or the new, never a part.

Locks are `flock` on POSIX and `LockFileEx` on Windows, by the library filelock; the system drops
them when their holder dies. On Windows a held lock also keeps other processes from reading the
file's first byte, so a holder writes its process id after it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import lock_descriptor, unlock_descriptor

from ragweave.errors import DiskFullError, LockedError

_STALE = 3600.0
"""Seconds after which an untouched temporary file counts as left behind by a killed process."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_SIGNS = (
    "no space left",
    "disk quota exceeded",
    "file too large",
    "pytorchstreamwriter failed",
    "iostream error",
    "unexpected pos",
    "(os error 28)",
    "(os error 27)",
    "(os error 122)",
)


def parse_json(text: str | bytes) -> Any:
    """Parse JSON that comes from a file; what is nested too deeply is invalid like the rest.

    Raises:
        json.JSONDecodeError: It is not JSON, or nested more deeply than Python's parser goes.
        UnicodeDecodeError: Bytes are not UTF-8.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("nested too deeply", "", 0) from None


def write_atomic(path: Path, content: str | bytes, *, sync: bool = True, alone: bool = False) -> None:
    """Write a file whole or not at all, with the permissions of the one that it replaces.

    Args:
        path: The file. A link is followed; a device or pipe is written to directly.
        content: Text (written as UTF-8, line breaks as they are) or bytes.
        sync: Whether to bring it to the disk; False for what is easily made again.
        alone: As for `replacing`.

    Raises:
        DiskFullError: The disk is full; the old content stands.
        OSError: The file cannot be written; the old content stands.
    """
    data = content.encode() if isinstance(content, str) else content
    if _is_special(path):
        path.write_bytes(data)
        return
    with replacing(path, sync=sync, alone=alone) as draft:
        draft.write_bytes(data)


@contextmanager
def replacing(path: Path, *, sync: bool = True, alone: bool = False) -> Iterator[Path]:
    """Yield a temporary file beside `path` that takes its place at the end of the block.

    For writers that want a path, and for content that does not fit into memory. Should the block
    raise, the temporary file is removed and `path` is as it was.

    Args:
        path: The file. A link is followed.
        sync: Whether to bring the file and its name to the disk.
        alone: Whether the caller holds a lock that every writer of `path` takes. What a killed
            writer left is then removed at once; otherwise only after an hour, as it might be
            another writer's.

    Raises:
        DiskFullError: The disk is full; the old content stands.
        OSError: The file cannot be written; the old content stands.
    """
    place = path.resolve() if path.is_symlink() else path
    remove_leftovers(place, older_than=0.0 if alone else _STALE)
    draft = _draft(place)
    with _room(path):
        try:
            draft.touch()
            _keep_mode(place, draft, or_write=0o200)  # nobody else may read it meanwhile
            yield draft
            if sync:
                sync_file(draft)
            _keep_mode(place, draft)
            draft.replace(place)
        finally:
            draft.unlink(missing_ok=True)  # on a full disk it would hold the space
        if sync:
            sync_folder(place.parent)


@contextmanager
def replacing_folder(folder: Path) -> Iterator[Path]:
    """Yield a new temporary folder that takes the place of `folder` at the end of the block.

    Every file in it is brought to the disk first. Should the block raise, the temporary folder is
    removed and `folder` is as it was; a process that is killed between the two renames leaves the
    old one as `.NAME.….old`.

    Raises:
        DiskFullError: The disk is full; the old folder stands.
        OSError: The folder cannot be written; the old one stands.
    """
    remove_leftovers(folder)
    draft = _draft(folder)
    with _room(folder):
        try:
            draft.mkdir(parents=True)
            yield draft
            sync_tree(draft)
            _exchange(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        sync_folder(folder.parent)


def remove_leftovers(path: Path, *, older_than: float = 0.0) -> None:
    """Remove temporary files and folders that a killed process left beside `path`.

    Args:
        path: The file or folder that was to be replaced.
        older_than: Seconds that they must have been untouched; 0 only where no other process can
            be writing there, because the caller holds its lock.
    """
    if not path.parent.is_dir():
        return
    before = time.time() - older_than
    for one in path.parent.iterdir():
        if not (one.name.startswith(f".{path.name}.") and one.name.endswith((".new", ".old"))):
            continue
        with suppress(FileNotFoundError):  # whoever wrote it has finished
            if one.lstat().st_mtime <= before:
                _remove(one)


def sync_file(path: Path) -> None:
    """Bring a file's content to the disk.

    Raises:
        OSError: The disk cannot be written.
    """
    with path.open("rb+" if os.name == "nt" else "rb") as stream:  # Windows syncs what it may write
        _sync(stream.fileno())


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; Windows has no such call and needs none.

    Raises:
        OSError: The disk cannot be written.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        _sync(handle)
    finally:
        os.close(handle)


def sync_tree(folder: Path) -> None:
    """Bring a folder, its folders and their files to the disk.

    Raises:
        OSError: The disk cannot be written.
    """
    for one in folder.iterdir():
        if one.is_dir():
            sync_tree(one)
        elif one.is_file():
            sync_file(one)
    sync_folder(folder)


def is_full_disk(error: BaseException) -> bool:
    """Return whether a write failed because the disk, or a quota, is full.

    torch and safetensors raise errors of their own, which only say so in their text.
    """
    if isinstance(error, OSError) and error.errno in _FULL:
        return True
    text = str(error).lower()
    return any(sign in text for sign in _FULL_SIGNS)


def _sync(handle: int) -> None:
    os.fsync(handle)


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.new")


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()


def _keep_mode(path: Path, draft: Path, *, or_write: int = 0) -> None:
    with suppress(FileNotFoundError):
        draft.chmod((path.stat().st_mode & 0o7777) | or_write)


def _exchange(draft: Path, folder: Path) -> None:
    """Replace `folder` by `draft`; where that fails, restore `folder`."""
    aside = draft.with_suffix(".old")
    if folder.exists():
        folder.replace(aside)
    try:
        draft.replace(folder)
    except BaseException:
        if aside.exists():
            aside.replace(folder)
        raise
    shutil.rmtree(aside, ignore_errors=True)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextmanager
def _room(path: Path) -> Iterator[None]:
    """Turn a full disk's many errors into one."""
    try:
        yield
    except DiskFullError:
        raise
    except Exception as error:
        if not is_full_disk(error):
            raise
        reason = error.strerror if isinstance(error, OSError) else None
        raise DiskFullError(path, *([reason] if reason else [])) from error


try:
    import fcntl
except ImportError:  # Windows: its readers take turns, as its writers do
    _SHARED = False
else:
    _SHARED = True

_WINDOWS = os.name == "nt"
_PAUSE = 0.005
"""Seconds between two attempts to take a lock that is held only briefly."""


@contextmanager
def hold(path: Path, *, wait: float = 0.0, remove: bool = False) -> Iterator[int]:
    """Hold the lock of a file, created if missing, and write the process id into it.

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
    """Wait for the lock of an open file and hold it; meant for short moments only."""
    lock_descriptor(handle, poll_interval=_PAUSE)
    try:
        yield
    finally:
        unlock_descriptor(handle)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Hold a shared lock: excludes writers (`writing`), admits other readers. Waits.

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
    """Hold an exclusive lock: excludes readers and other writers. Waits."""
    handle = open_file(path)
    try:
        with in_turn(handle):
            yield
    finally:
        os.close(handle)


def lock_open_file(handle: int, path: Path) -> None:
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
        close_file(handle)  # its holder removed it meanwhile: the path may name another file now


def _sign(handle: int) -> None:
    os.ftruncate(handle, 0)
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, b"\n%d" % os.getpid())


def _holder(handle: int) -> str:
    os.lseek(handle, 1 if _WINDOWS else 0, os.SEEK_SET)
    return os.read(handle, 32).decode("ascii", "replace").strip()
