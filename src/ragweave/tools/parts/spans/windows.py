"""Cutting sentences into windows: whole sentences, each scored in exactly one window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Cut(NamedTuple):
    """The sentences of one window: those from `start` to `end` (exclusive) are scored in it."""

    start: int
    end: int
    lead: bool
    """Whether the sentence before stands ahead of them, unscored, so that pronouns have a noun."""


def cuts(sizes: Sequence[int], room: int) -> Iterator[Cut]:
    """Yield the windows of a passage, in order.

    A window takes sentences while they fit; it is led by the sentence before it where that takes
    less than half the room and leaves room for the first that is scored.

    Args:
        sizes: Tokens of each sentence, at least 1 and at most `room`.
        room: Tokens that a window has for sentences.
    """
    start = 0
    while start < len(sizes):
        before = sizes[start - 1] if start else 0
        lead = 0 < before * 2 < room and before + sizes[start] <= room
        used, end = before if lead else 0, start
        while end < len(sizes) and used + sizes[end] <= room:
            used += sizes[end]
            end += 1
        yield Cut(start, end, lead)
        start = end
