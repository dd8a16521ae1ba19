"""The terminal: one console for results, one for progress; both plain in a pipe.

Files that commands write: whole or not at all, and one line where the disk refuses.
"""

from __future__ import annotations

import errno
import os
import sys
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from ragweave.errors import UsageError
from ragweave.tools.files import write_atomic

if TYPE_CHECKING:
    from rich.progress import Progress


_REFUSALS = frozenset(
    (
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.EISDIR, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.EIO, errno.EEXIST),
    )
)


def write_file(path: Path, text: str) -> None:
    """Write text as UTF-8, in the place of what was there, so that no half of it is left.

    A lone surrogate, which no encoding can write, becomes `?`. What is no regular file (a pipe,
    `/dev/stdout`) is written to as it stands.

    Raises:
        UsageError: The folder is missing, or the disk refuses.
    """
    data = text.encode("utf-8", "replace")
    if not path.parent.is_dir():
        raise UsageError(f"no such folder: {path.parent}")
    try:
        write_atomic(path, data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def refused(error: BaseException) -> str | None:
    """Return one line for what a disk or folder refused, or None for another error."""
    if not isinstance(error, OSError) or error.errno not in _REFUSALS:
        return None
    reason = error.strerror or str(error)
    return (
        f"{os.fsdecode(error.filename)}: {reason}" if error.filename else f"cannot write: {reason}"
    )


def console() -> Console:
    """Return the console for results (standard output)."""
    return _console(stderr=False)


def progress_console() -> Console:
    """Return the console for progress and remarks (standard error)."""
    return _console(stderr=True)


def progress_bar(*more: str) -> Progress:
    """Return a bar on standard error that goes when it is done; silent in a pipe.

    Args:
        more: Texts behind the count, such as `loss {task.fields[loss]}`.
    """
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    screen = progress_console()
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        *map(TextColumn, more),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else 120
    return Console(stderr=stderr, width=width, highlight=False, soft_wrap=False)


def plain(text: str) -> str:
    """Return `text` without what could steer a terminal: control and format characters.

    Models, documents and file names are untrusted. Line ends and tabs stay; a lone surrogate,
    which no terminal can show, becomes `?`.
    """
    kept = (
        char
        for char in text
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cf", "Co")
    )
    return "".join(kept).encode("utf-8", "replace").decode("utf-8")


def marked_up(text: str) -> str:
    """Return untrusted text as one line that rich shows as it is."""
    from rich.markup import escape

    return escape(" ".join(plain(text).split()))
