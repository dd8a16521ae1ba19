"""What a data set's format says about itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragweave.evaluation.datasets.files import rows_of
from ragweave.evaluation.datasets.question import Question
from ragweave.evaluation.datasets.rows import Row, Rows


@dataclass(frozen=True, kw_only=True)
class Format:
    """A published file format."""

    name: str
    expects: str
    """The fields that its rows have, for people."""
    fits: Callable[[Mapping[str, Any]], bool]
    """Whether a file's first row is of this format."""
    read: Callable[[Row], Iterator[Question]]
    """The questions of a row; one, but for formats that nest them."""
    rows: Callable[[Path], Rows] = rows_of
    """The rows of a path."""
    settle: Callable[[Rows], Format] | None = None
    """The format that a look at the rows decides on, where the first row alone doesn't tell."""


def has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for rows that have all these fields."""
    return lambda fields: all(name in fields for name in names)
