"""Bookkeeping of the key-value cache: cells, reusable prefixes, and the pool of sequences.

llama.cpp's unified KV cache stores a token once, however many sequences share it, and does not
say how many cells are left. `KVCells` mirrors it, so that no batch is ever sent that would not
fit. `PrefixCache` remembers which finished sequences stay computed, so that a later prompt with
the same prefix need not be computed again. `SequencePool` combines the two: it lends sequences
and cells to requests and takes them back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ragweave.llamacpp.core import Core


class KVCells:
    """Counts the cells of `n_ctx` that sequences hold, shared ones once."""

    def __init__(self, n_ctx: int, n_sequences: int) -> None:
        """Start with every cell free."""
        self._free = list(range(n_ctx))
        self._holders = [0] * n_ctx
        self._held: list[list[int]] = [[] for _ in range(n_sequences)]

    @property
    def free(self) -> int:
        """How many tokens may still be decoded."""
        return len(self._free)

    def length(self, sequence: int) -> int:
        """How many tokens a sequence holds."""
        return len(self._held[sequence])

    def held(self, sequences: Iterable[int]) -> int:
        """How many cells sequences hold together, shared ones counted once."""
        return len(set().union(*(self._held[sequence] for sequence in sequences)))

    def take(self, sequence: int, count: int) -> None:
        """Give a sequence `count` more cells; that many must be free."""
        for _ in range(count):
            cell = self._free.pop()
            self._holders[cell] = 1
            self._held[sequence].append(cell)

    def share(self, source: int, target: int, count: int) -> None:
        """Let an empty sequence share the first `count` cells of another."""
        cells = self._held[source][:count]
        for cell in cells:
            self._holders[cell] += 1
        self._held[target] = cells

    def cut(self, sequence: int, keep: int = 0) -> None:
        """Free all cells of a sequence but the first `keep`."""
        for cell in self._held[sequence][keep:]:
            self._holders[cell] -= 1
            if not self._holders[cell]:
                self._free.append(cell)
        del self._held[sequence][keep:]


Tokens = NDArray[np.int32]


def common_prefix(left: Tokens, right: Tokens) -> int:
    """Return the length of the longest common prefix of two arrays of tokens."""
    size = min(len(left), len(right))
    if not size or left[0] != right[0]:
        return 0
    differing = np.flatnonzero(left[:size] != right[:size])
    return int(differing[0]) if differing.size else size


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

    def find(self, tokens: Tokens) -> tuple[int, int]:
        """Return the sequence with the longest common prefix, and its length; (-1, 0) if none."""
        return longest_prefix(tokens, self._tokens.items())

    def oldest(self, excluding: int = -1) -> int | None:
        """Remove and return the least recently used sequence other than `excluding`."""
        for sequence in self._tokens:
            if sequence != excluding:
                del self._tokens[sequence]
                return sequence
        return None


def longest_prefix(tokens: Tokens, held: Iterable[tuple[int, Tokens]]) -> tuple[int, int]:
    """Return the key and length of the longest common prefix; (-1, 0) where there is none."""
    found, length = -1, 0
    for key, other in held:
        shared = common_prefix(tokens, other)
        if shared > length:
            found, length = key, shared
    return found, length


class SequencePool:
    """Lends sequences and cells of a model's context to requests, and takes them back."""

    def __init__(self, core: Core, n_kept: int) -> None:
        """Start with an empty context; keep at most `n_kept` tokens of finished requests."""
        core.clear()
        self._core = core
        self._n_kept = n_kept
        self._cells = KVCells(core.n_ctx, core.n_sequences)
        self._ids = list(range(core.n_sequences))
        self._prefixes = PrefixCache()

    @property
    def free(self) -> int:
        """How many tokens may still be computed."""
        return self._cells.free

    def find(self, tokens: Tokens) -> tuple[int, int]:
        """Return the cached sequence with the longest common prefix, and its length."""
        return self._prefixes.find(tokens)

    def make_room(self, need: int, excluding: int) -> bool:
        """Evict cached sequences other than `excluding` until `need` cells are free."""
        while self._cells.free < need and self.evict(excluding):
            pass
        return self._cells.free >= need

    def evict(self, excluding: int = -1) -> bool:
        """Evict the least recently used cached sequence; return whether there was one."""
        sequence = self._prefixes.oldest(excluding)
        if sequence is None:
            return False
        self.forget(sequence)
        return True

    def acquire(self, source: int, length: int) -> int | None:
        """Return a sequence that starts with `length` tokens of another; None if all are in use."""
        if not self._ids and not self.evict(source):
            return None
        sequence = self._ids.pop()
        if length:
            self._core.share(source, sequence, length)
            self._cells.share(source, sequence, length)
            self._prefixes.use(source)
        return sequence

    def take(self, sequence: int, count: int) -> None:
        """Record that `count` more tokens of a sequence were computed."""
        self._cells.take(sequence, count)

    def undo(self, sequence: int, keep: int) -> int:
        """Remove what a failed batch left in a sequence; return how many tokens remain.

        A recurrent state can't be rolled back part of the way: the whole sequence is removed.
        """
        remaining = keep if self._core.can_share else 0
        self._core.cut(sequence, remaining)
        self._cells.cut(sequence, remaining)
        return remaining

    def keep(
        self, sequence: int, tokens: Tokens, needed: int, others: Iterable[tuple[int, Tokens]]
    ) -> None:
        """Cache what a finished request computed, unless another sequence holds it too.

        Args:
            sequence: The request's sequence.
            tokens: Those of its tokens that are worth caching.
            needed: How many of them another sequence must hold to make this one redundant: one
                more sample of a cached prompt is not worth caching.
            others: Running sequences, with their computed tokens.
        """
        known = max(self._prefixes.find(tokens)[1], longest_prefix(tokens, others)[1])
        if known >= min(len(tokens), needed):
            self.forget(sequence)
            return
        self._core.cut(sequence, len(tokens))
        self._cells.cut(sequence, len(tokens))
        self._prefixes.add(sequence, tokens)
        while len(self._prefixes) > 1 and self._cells.held(self._prefixes) > self._n_kept:
            self.evict()

    def forget(self, sequence: int) -> None:
        """Take a sequence and its cells back."""
        self._core.cut(sequence)
        self._cells.cut(sequence)
        self._ids.append(sequence)
