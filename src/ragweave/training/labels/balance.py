"""Class balance: the larger class is down-sampled, data set by data set (SlimPLM, Table 5)."""

from __future__ import annotations

import random
from collections.abc import Sequence

from ragweave.training.labels.maker import Mark


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
        classes.setdefault(mark.data, {True: [], False: []})[bool(mark.known)].append(mark.at)
    left_out: set[int] = set()
    for data, sides in sorted(classes.items()):
        smaller, larger = sorted(sides.values(), key=len)
        kept = random.Random(f"{seed}:{data}").sample(sorted(larger), len(smaller))
        left_out |= set(larger) - set(kept)
    return frozenset(left_out) if len(left_out) < len(marks) else frozenset()
