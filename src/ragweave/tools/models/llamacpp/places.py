"""The context's room: sequences, their cells, and what is kept of finished requests."""

from __future__ import annotations

from collections.abc import Iterable

from ragweave.tools.models.llamacpp.cells import Cells
from ragweave.tools.models.llamacpp.core import Core
from ragweave.tools.models.llamacpp.prefixes import Kept, Tokens, longest


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
