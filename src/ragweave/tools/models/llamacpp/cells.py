"""The bookkeeping of the key-value cache: which cells each sequence holds.

llama.cpp's unified cache keeps a token once, however many sequences share it, and does not say
how many cells are left. This ledger mirrors it, so that a batch is never sent that has no room.
"""

from __future__ import annotations

from collections.abc import Iterable


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
