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
from ragweave.training.labels.source import InvalidRow, Item

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


CachedCall = Callable[[str, Callable[[], Awaitable[dict[str, Any]]]], Awaitable[dict[str, Any]]]
"""Makes a model call under a name, or returns the reply that the journal has kept under it."""


@dataclass(frozen=True, slots=True)
class LabelledRow:
    """A finished training row."""

    row: Mapping[str, Any]
    """The row without its `source`."""
    how: Mapping[str, Any]
    """How it was labelled, for the row's `source`."""


@dataclass(frozen=True, slots=True)
class DroppedRow:
    """A question that gives no row."""

    reason: str
    """In a few words, the same for all rows of this kind."""


@dataclass(frozen=True, slots=True)
class RowLabel:
    """A finished row's label, for what is decided over all rows."""

    index: int
    data: str
    known: bool | None
    """The judge's label; None in other kinds of row."""


class Labeler(Protocol):
    """Makes rows of one kind."""

    role: PartRole
    needs_gold: bool
    """Whether a row without gold answers is invalid."""

    def settings(self) -> dict[str, Any]:
        """Return what bears on the rows, keys left out; plain JSON values."""
        ...

    def check(self, item: Item) -> InvalidRow | None:
        """Say what is wrong with a row, before any model is asked."""
        ...

    async def make(self, item: Item, call: CachedCall) -> LabelledRow | DroppedRow:
        """Make the row."""
        ...

    def rows_to_drop(self, labels: Sequence[RowLabel]) -> Mapping[int, str]:
        """Return which of the finished rows are left out in the end, and why."""
        ...

    def count(self, row: Mapping[str, Any]) -> Mapping[str, int]:
        """Return what a written row adds to the counts of its data set."""
        ...


def down_sample(labels: Sequence[RowLabel], seed: int) -> frozenset[int]:
    """Return the positions of the rows that are left out for balance.

    In each data set as many known as unknown rows stay, those of the larger class drawn at
    random. Where that would leave nothing at all (every data set has one class only), all stay.

    Args:
        labels: The labelled rows.
        seed: Seed of the draw; the same rows and seed give the same draw.
    """
    classes: dict[str, dict[bool, list[int]]] = {}
    for label in labels:
        classes.setdefault(label.data, {True: [], False: []})[bool(label.known)].append(label.index)
    left_out: set[int] = set()
    for data, sides in sorted(classes.items()):
        smaller, larger = sorted(sides.values(), key=len)
        kept = random.Random(f"{seed}:{data}").sample(sorted(larger), len(smaller))
        left_out |= set(larger) - set(kept)
    return frozenset(left_out) if len(left_out) < len(labels) else frozenset()
