"""Which tokens stay computed, so that a later prompt with the same prefix is not computed again.

`PrefixCache` names the finished sequences that stay in the context. Attention runs over all tokens
there, useful or not, so that they are few. `Shelf` holds copies in main memory of those that had to
leave: copying a sequence's keys and values is far quicker than computing them, and slows nothing
down until it is needed again.

In models with sliding-window attention a sequence or copy may lack its beginning. It then serves only
prefixes that are long enough (`least_prefix`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.int32]
State = NDArray[np.uint8]
"""A sequence's keys and values, as llama.cpp writes them."""


def common_prefix(left: Tokens, right: Tokens) -> int:
    """Return the length of the longest common prefix of two arrays of tokens."""
    size = min(len(left), len(right))
    if not size or left[0] != right[0]:
        return 0
    differing = np.flatnonzero(left[:size] != right[:size])
    return int(differing[0]) if differing.size else size


def least_prefix(first: int, window: int) -> int:
    """Return how many tokens must be kept for all that the next one attends to to be there.

    Args:
        first: The position from which on keys and values are there.
        window: Tokens that sliding-window attention looks back, its own included.
    """
    return first + window - 1 if first > 0 else 0


def whole(key: int) -> int:
    """Return the shortest prefix that a sequence without gaps can serve."""
    del key
    return 0


def longest_prefix(
    tokens: Tokens, held: Iterable[tuple[int, Tokens]], least: Callable[[int], int] = whole
) -> tuple[int, int]:
    """Return the key and length of the longest common prefix; (-1, 0) where there is none.

    Args:
        tokens: The tokens whose prefix is looked for.
        held: Keys and their tokens.
        least: Returns the shortest prefix that a key's tokens can serve.
    """
    found, length = -1, 0
    for key, other in held:
        shared = common_prefix(tokens, other)
        if shared > length and shared >= least(key):
            found, length = key, shared
    return found, length


class PrefixCache:
    """Finished sequences whose tokens stay computed, the least recently used first."""

    def __init__(self) -> None:
        self._tokens: OrderedDict[int, Tokens] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def __iter__(self) -> Iterator[int]:
        return iter(self._tokens)

    def add(self, sequence: int, tokens: Tokens) -> None:
        """Add a sequence that holds `tokens`."""
        self._tokens[sequence] = tokens

    def use(self, sequence: int) -> None:
        """Mark a sequence as just used; a sequence that is not in the cache is ignored."""
        if sequence in self._tokens:
            self._tokens.move_to_end(sequence)

    def find(self, tokens: Tokens, least: Callable[[int], int] = whole) -> tuple[int, int]:
        """Return the sequence with the longest common prefix, and its length; (-1, 0) if none.

        `least` returns the shortest prefix that a sequence can serve.
        """
        return longest_prefix(tokens, self._tokens.items(), least)

    def items(self) -> Iterable[tuple[int, Tokens]]:
        """Return the sequences with their tokens."""
        return self._tokens.items()

    def remove(self, sequence: int) -> None:
        """Remove a sequence."""
        del self._tokens[sequence]

    def oldest(self, excluding: int = -1) -> tuple[int, Tokens] | None:
        """Remove and return the least recently used sequence other than `excluding`."""
        for sequence in self._tokens:
            if sequence != excluding:
                return sequence, self._tokens.pop(sequence)
        return None


class _Copy(NamedTuple):
    tokens: Tokens
    state: State
    least: int
    """The shortest prefix that it can serve."""


class Shelf:
    """Sequences set aside, the least recently used first."""

    def __init__(self, limit: int = 0) -> None:
        """Start empty; hold at most `limit` bytes."""
        self.limit = limit
        self._held: OrderedDict[int, _Copy] = OrderedDict()
        self._keys = count()
        self.size = 0
        """Bytes held."""

    def holds(self, tokens: Tokens) -> bool:
        """Whether a copy begins with all of `tokens`; it then counts as just used."""
        key, length = self.find(tokens)
        if length < len(tokens):
            return False
        self.use(key)
        return True

    def put(self, tokens: Tokens, state: State, least: int = 0) -> None:
        """Set a sequence aside in place of those that are its beginning; drop what is too much.

        `least` is the shortest prefix of `tokens` that it can serve.
        """
        if not 0 < state.nbytes <= self.limit:
            return
        for key, (other, _, reach) in list(self._held.items()):
            if common_prefix(tokens, other) == len(other) and least <= reach:
                self._drop(key)
        self._held[next(self._keys)] = _Copy(tokens, state, least)
        self.size += state.nbytes
        while self.size > self.limit:
            self._drop(next(iter(self._held)))

    def find(self, tokens: Tokens) -> tuple[int, int]:
        """Return the key of the longest common prefix, and its length; (-1, 0) if there is none.

        Of several as long it is the shortest copy: the whole of it takes cells for a moment.
        """
        found = (
            (common_prefix(tokens, one.tokens), -len(one.tokens), key, one.least)
            for key, one in self._held.items()
        )
        served = (one for one in found if one[0] >= one[-1])
        length, _, key, _ = max(served, default=(0, 0, -1, 0))
        return (key, length) if length else (-1, 0)

    def get(self, key: int) -> tuple[Tokens, State]:
        """Return a sequence."""
        return self._held[key][:2]

    def use(self, key: int) -> None:
        """Mark a sequence as just used; one that was dropped meanwhile is ignored."""
        if key in self._held:
            self._held.move_to_end(key)

    def _drop(self, key: int) -> None:
        self.size -= self._held.pop(key).state.nbytes
