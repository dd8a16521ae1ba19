"""The terminal: one console for results, one for progress; both plain in a pipe."""

from __future__ import annotations

import os
import sys
import unicodedata
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress


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
