"""The terminal: one console for results, one for progress; both plain in a pipe."""

from __future__ import annotations

import os
import sys

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
