"""What a data set's format says about itself.

A format is declared by one value in its own file, ours and other people's alike:

    FORMAT = Format(name="riddles", summary="…", expects="riddle, solution",
                    fits=has("riddle", "solution"), read=_read)

A package names it as an entry point of the group `ragweave.datasets`; its questions are then
opened by `riddles:FILE`, or by the file alone, whose first row says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.documents import Document

from ragweave.evaluation.datasets.files import rows_of
from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.datasets.rows import Row, Rows


@dataclass(frozen=True, kw_only=True)
class Format:
    """A published file format."""

    name: str
    summary: str = ""
    """What comes in it, in a line."""
    datasets: tuple[str, ...] = ()
    """The data sets that come in it, each a name before the colon of `name:path`; none: its own
    name."""
    expects: str
    """The fields that its rows have, for people."""
    fits: Callable[[Mapping[str, Any]], bool]
    """Whether a file's first row is of this format."""
    read: Callable[[Row], Iterator[Question]]
    """The questions of a row; one, but for formats that nest them."""
    rows: Callable[[Path], Rows] = rows_of
    """The rows of a path."""
    corpus: Callable[[Path], Iterable[Document]] | None = None
    """The passages of a path that keeps them apart from its questions; None: the questions'."""
    sniffed: bool = True
    """Whether a file without a name is tried for it."""

    settle: Callable[[Rows], Format] | None = None
    """The format that a look at the rows decides on, where the first row alone doesn't tell."""

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets that come in it."""
        return self.datasets or (self.name,)


def has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for rows that have all these fields."""
    return lambda fields: all(name in fields for name in names)
