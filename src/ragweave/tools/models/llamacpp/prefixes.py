"""Which computed tokens can be used again: sequences in work and finished ones kept for later."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]


def common(left: Tokens, right: Tokens) -> int:
    """Return how many tokens two arrays begin with alike."""
    size = min(len(left), len(right))
    if not size or left[0] != right[0]:
        return 0
    differing = np.flatnonzero(left[:size] != right[:size])
    return int(differing[0]) if differing.size else size


class Kept:
    """Finished sequences whose tokens stay computed, the least recently used first."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[int, Tokens] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    def add(self, sequence: int, tokens: Tokens) -> None:
        """Keep a sequence that holds `tokens`."""
        self._tokens[sequence] = tokens

    def use(self, sequence: int) -> None:
        """Note that a sequence was useful just now, where it is a kept one."""
        if sequence in self._tokens:
            self._tokens.move_to_end(sequence)

    def find(self, tokens: Tokens) -> tuple[int, int]:
        """Return the sequence that begins most like `tokens`, and for how long; (-1, 0) if none."""
        return longest(tokens, self._tokens.items())

    def oldest(self, spare: int = -1) -> int | None:
        """Remove and return the least recently used sequence other than `spare`."""
        for sequence in self._tokens:
            if sequence != spare:
                del self._tokens[sequence]
                return sequence
        return None


def longest(tokens: Tokens, held: Iterable[tuple[int, Tokens]]) -> tuple[int, int]:
    """Return the key and length of the longest common beginning; (-1, 0) where there is none."""
    found, length = -1, 0
    for key, other in held:
        alike = common(tokens, other)
        if alike > length:
            found, length = key, alike
    return found, length
