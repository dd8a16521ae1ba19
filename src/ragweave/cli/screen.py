"""The terminal: one console for results, one for progress; both plain in a pipe."""

from __future__ import annotations

import os
import sys
import unicodedata

from rich.console import Console


def console() -> Console:
    """Return the console for results (standard output)."""
    return _console(stderr=False)


def progress_console() -> Console:
    """Return the console for progress and remarks (standard error)."""
    return _console(stderr=True)


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
