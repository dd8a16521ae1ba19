"""What an indexing run did."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[str, int, int], None]
"""Called with a stage (`read`, `embed` or `index`), how much of it is done, and its total."""


def counted(number: int, noun: str) -> str:
    """Return a number and its noun, which takes an s but for one."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(path: str | os.PathLike[str]) -> str:
    """Return a path as text that can be printed: bytes that are no UTF-8 stand as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Skip:
    """A file, or a row of one, that could not be indexed."""

    path: str
    reason: str
    line: int | None = None

    def __post_init__(self) -> None:
        """Make a path printable whose bytes are no UTF-8: they stand as escapes."""
        object.__setattr__(self, "path", printable(self.path))

    def __str__(self) -> str:
        """Render as `path:line: reason`."""
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.reason}"


@dataclass(frozen=True)
class IndexReport:
    """What `KnowledgeBase.index_paths` did, counted in files unless stated."""

    added: int
    changed: int
    removed: int
    unchanged: int
    skipped: tuple[Skip, ...]
    """Files and rows left out, with reasons; those of unchanged files are named again."""
    passages: int
    """Distinct passages in the knowledge base now."""
    embedded: int
    """Passages embedded in this run."""
    generation: int
    """Generation of the index now; it grows by one a write that changed something."""

    @property
    def skipped_files(self) -> int:
        """Files, and folders that cannot be listed, that were left out."""
        return sum(skip.line is None for skip in self.skipped)

    @property
    def skipped_rows(self) -> int:
        """Rows left out of files that were read."""
        return len(self.skipped) - self.skipped_files

    def __str__(self) -> str:
        """Render as one line."""
        skips = [(self.skipped_files, "file"), (self.skipped_rows, "row")]
        skipped = " and ".join(counted(number, noun) for number, noun in skips if number)
        return (
            f"{counted(self.passages, 'passage')}; files: {self.added} added, "
            f"{self.changed} changed, {self.removed} removed, {self.unchanged} unchanged; "
            f"{skipped or 'none'} skipped"
        )
