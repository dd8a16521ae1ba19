"""What makes one kind of label: the contract between the engine and the three kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ragweave.tools.parts import PartRole
from ragweave.training.labels.source import Bad, Item

Once = Callable[[str, Callable[[], Awaitable[dict[str, Any]]]], Awaitable[dict[str, Any]]]
"""Makes a model call under a name, or returns what an earlier process had and kept of it."""


@dataclass(frozen=True, slots=True)
class Made:
    """A finished training row."""

    row: Mapping[str, Any]
    """The row without its `source`."""
    how: Mapping[str, Any]
    """How it was labelled, for the row's `source`."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A question that gives no row."""

    reason: str
    """In a few words, the same for all rows of this kind."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A made row in short, for what is decided over all rows."""

    at: int
    data: str
    known: bool | None
    """The judge's label; None in other kinds of row."""


class Labeler(Protocol):
    """Makes rows of one kind."""

    role: PartRole
    needs_gold: bool
    """Whether a row without gold answers is bad."""

    def settings(self) -> dict[str, Any]:
        """Return what bears on the rows, keys left out; plain JSON values."""
        ...

    def check(self, item: Item) -> Bad | None:
        """Say what is wrong with a row, before any model is asked."""
        ...

    async def make(self, item: Item, once: Once) -> Made | Dropped:
        """Make the row."""
        ...

    def surplus(self, marks: Sequence[Mark]) -> Mapping[int, str]:
        """Return which of the made rows are left out at the end, and why."""
        ...

    def count(self, row: Mapping[str, Any]) -> Mapping[str, int]:
        """Return what a written row adds to the counts of its data set."""
        ...
