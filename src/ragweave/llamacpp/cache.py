"""The bookkeeping of the key-value cache: which cells each sequence holds.

llama.cpp's unified cache keeps a token once, however many sequences share it, and does not say
how many cells are left. This ledger mirrors it, so that a batch is never sent that has no room.

Which computed tokens can be used again: sequences in work and finished ones kept for later.

The context's room: sequences, their cells, and what is kept of finished requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ragweave.llamacpp.core import Core


class Cells:
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
        """Give a sequence `count` more cells; there must be that many."""
        for _ in range(count):
            cell = self._free.pop()
            self._holders[cell] = 1
            self._held[sequence].append(cell)

    def share(self, source: int, target: int, count: int) -> None:
        """Let an empty sequence hold the first `count` cells of another too."""
        cells = self._held[source][:count]
        for cell in cells:
            self._holders[cell] += 1
        self._held[target] = cells

    def cut(self, sequence: int, keep: int = 0) -> None:
        """Take from a sequence all cells but the first `keep`."""
        for cell in self._held[sequence][keep:]:
            self._holders[cell] -= 1
            if not self._holders[cell]:
                self._free.append(cell)
        del self._held[sequence][keep:]


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


class Places:
    """Gives sequences and cells of a model's context to requests, and takes them back."""

    def __init__(self, core: Core, n_kept: int) -> None:
        """Start with an empty context; keep at most `n_kept` tokens of finished requests."""
        core.clear()
        self._core = core
        self._n_kept = n_kept
        self._cells = Cells(core.n_ctx, core.n_sequences)
        self._ids = list(range(core.n_sequences))
        self._kept = Kept()

    @property
    def free(self) -> int:
        """How many tokens may still be computed."""
        return self._cells.free

    def find(self, tokens: Tokens) -> tuple[int, int]:
        """Return the kept sequence that begins most like `tokens`, and for how long."""
        return self._kept.find(tokens)

    def make_room(self, need: int, spare: int) -> bool:
        """Give up kept sequences other than `spare` until `need` cells are free."""
        while self._cells.free < need and self.evict(spare):
            pass
        return self._cells.free >= need

    def evict(self, spare: int = -1) -> bool:
        """Give up the least recently used kept sequence; return whether there was one."""
        sequence = self._kept.oldest(spare)
        if sequence is None:
            return False
        self.forget(sequence)
        return True

    def claim(self, source: int, length: int) -> int | None:
        """Return a sequence that begins with `length` tokens of another; None if all are taken."""
        if not self._ids and not self.evict(source):
            return None
        sequence = self._ids.pop()
        if length:
            self._core.share(source, sequence, length)
            self._cells.share(source, sequence, length)
            self._kept.use(source)
        return sequence

    def take(self, sequence: int, count: int) -> None:
        """Note that `count` more tokens of a sequence were computed."""
        self._cells.take(sequence, count)

    def undo(self, sequence: int, keep: int) -> int:
        """Forget what a failed batch left of a sequence; return how many tokens remain.

        A recurrent state can't go back by a part: such a model forgets the whole sequence.
        """
        remaining = keep if self._core.can_share else 0
        self._core.cut(sequence, remaining)
        self._cells.cut(sequence, remaining)
        return remaining

    def keep(
        self, sequence: int, tokens: Tokens, needed: int, others: Iterable[tuple[int, Tokens]]
    ) -> None:
        """Keep what a finished request computed, unless another sequence holds it too.

        Args:
            sequence: The request's sequence.
            tokens: What it holds and is worth keeping.
            needed: How much of that another must hold to make it superfluous: one more sample of
                a prompt that is held already is not worth a place.
            others: Sequences in work, with their computed tokens.
        """
        known = max(self._kept.find(tokens)[1], longest(tokens, others)[1])
        if known >= min(len(tokens), needed):
            self.forget(sequence)
            return
        self._core.cut(sequence, len(tokens))
        self._cells.cut(sequence, len(tokens))
        self._kept.add(sequence, tokens)
        while len(self._kept) > 1 and self._cells.held(self._kept) > self._n_kept:
            self.evict()

    def forget(self, sequence: int) -> None:
        """Take a sequence and its cells back."""
        self._core.cut(sequence)
        self._cells.cut(sequence)
        self._ids.append(sequence)
