"""`Labeler`, the contract between the labelling engine and the three kinds of labels.

Class balance is decided here too: the larger class is down-sampled, data set by data set (SlimPLM,
Table 5).
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ragweave.errors import UsageError
from ragweave.trained import PartRole
from ragweave.training.labels.source import Bad, Item

OnProgress = Callable[[int, int, int], None]
"""Called with questions done, questions in all, and failures so far."""


@dataclass(frozen=True, kw_only=True)
class LabelConfig:
    """How a session works on a labelling; none of it affects the rows."""

    concurrency: int = 16
    """Questions in flight at once."""
    retry_failed: bool = False
    """Whether questions whose model calls failed are tried again."""
    drop_failed: bool = False
    """Whether the file is finished without them."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, not {self.concurrency}")


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

    index: int
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


def surplus(marks: Sequence[Mark], seed: int) -> frozenset[int]:
    """Return the positions of the rows that balance leaves out.

    In each data set as many known as unknown rows stay, those of the larger class drawn at
    random. Where that would leave nothing at all (every data set has one class only), all stay.

    Args:
        marks: The labelled rows.
        seed: Seed of the draw; the same rows and seed give the same draw.
    """
    classes: dict[str, dict[bool, list[int]]] = {}
    for mark in marks:
        classes.setdefault(mark.data, {True: [], False: []})[bool(mark.known)].append(mark.index)
    left_out: set[int] = set()
    for data, sides in sorted(classes.items()):
        smaller, larger = sorted(sides.values(), key=len)
        kept = random.Random(f"{seed}:{data}").sample(sorted(larger), len(smaller))
        left_out |= set(larger) - set(kept)
    return frozenset(left_out) if len(left_out) < len(marks) else frozenset()
