"""Bookkeeping of the key-value cache: its cells, and the pool of sequences.

llama.cpp's unified KV cache stores a token once, however many sequences share it, and does not
say how many cells are left. `KVCells` mirrors it, so that no batch is ever sent that would not
fit. `SequencePool` lends sequences and cells to requests and takes them back: what finished ones
have computed stays in the context for a while, then in main memory (`prefix.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from ragweave.llamacpp.core import Core
from ragweave.llamacpp.prefix import (
    PrefixCache,
    Shelf,
    Tokens,
    common_prefix,
    least_prefix,
    longest_prefix,
)


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


_WORTH_COPYING = 32
"""Tokens; fewer are as soon computed again."""
_ROOM_BESIDE = 8
"""Which part of the context a copy leaves free, so that a request can begin with it."""


class SequencePool:
    """Lends sequences and cells of a model's context to requests, and takes them back."""

    def __init__(self, core: Core, n_kept: int, shelf: Shelf) -> None:
        """Start with an empty context.

        Args:
            core: The loaded model.
            n_kept: Most tokens of finished requests that stay in the context.
            shelf: Where sequences go that leave it.
        """
        core.clear()
        self._shelf = shelf
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
        return self._prefixes.find(tokens, self._core.least)

    def make_room(self, need: int, excluding: int) -> bool:
        """Evict cached sequences other than `excluding` until `need` cells are free."""
        while self._cells.free < need and self.evict(excluding):
            pass
        return self._cells.free >= need

    def evict(self, excluding: int = -1) -> bool:
        """Evict the least recently used cached sequence; return whether there was one."""
        found = self._prefixes.oldest(excluding)
        if found is None:
            return False
        self.set_aside(*found)
        return True

    def set_idle_aside(self, requests: Iterable[Tokens]) -> None:
        """Set aside what no request begins like, where main memory has room for it.

        Attention would run over it. In a model with a window it stays: a copy lacks what would
        serve a shorter prefix. So does what a request shares half of or more: that takes few cells
        beside the request's own, and a conversation goes on with it.

        Args:
            requests: The prompts of running and waiting requests.
        """
        if self._core.window or not (self._shelf.limit and self._prefixes):
            return
        prompts = list(requests)
        idle = [
            (sequence, tokens)
            for sequence, tokens in self._prefixes.items()
            if not any(2 * common_prefix(tokens, one) >= len(tokens) for one in prompts)
        ]
        # The longest first: what it begins with needs no copy of its own.
        for sequence, tokens in sorted(idle, key=lambda one: -len(one[1])):
            if self._core.state_size(sequence) <= self._shelf.limit:
                self._prefixes.remove(sequence)
                self.set_aside(sequence, tokens)

    def set_aside(self, sequence: int, tokens: Tokens) -> None:
        """Take a sequence and its cells back, and keep a copy of its `tokens` in main memory."""
        kept = tokens[: self._core.n_ctx - self._core.n_ctx // _ROOM_BESIDE]
        if len(kept) >= _WORTH_COPYING and self._core.can_share and not self._shelf.holds(kept):
            self._core.cut(sequence, len(kept))
            self._copy(sequence, kept)
        self.forget(sequence)

    def _copy(self, sequence: int, tokens: Tokens) -> None:
        least = self._core.least(sequence)
        if self._core.window:
            # What lies behind the window of the last token is not copied.
            first = len(tokens) - self._core.window
            least = max(least, least_prefix(first, self._core.window))
        if least <= len(tokens) and self._core.state_size(sequence) <= self._shelf.limit:
            self._shelf.put(tokens, self._core.state(sequence), least)

    def restore(self, tokens: Tokens, shared: int, need: int, excluding: int) -> tuple[int, int]:
        """Return a new sequence that begins like `tokens`, copied from main memory.

        Args:
            tokens: What may be taken from elsewhere of what is to be computed.
            shared: How many of them another sequence holds. Sharing them takes no cells, and a copy
                does: it must hold twice as many.
            need: Cells that must be free for the request, what is copied included.
            excluding: A sequence that must stay.

        Returns:
            The sequence and how many of `tokens` it holds; (-1, 0) where there is no copy worth it,
            or no room.
        """
        key, length = self._shelf.find(tokens)
        if length < max(shared + _WORTH_COPYING, 2 * shared):
            return -1, 0
        copied, state = self._shelf.get(key)
        if not self.make_room(max(len(copied), need), excluding):
            return -1, 0
        sequence = self.acquire(excluding, 0)
        if sequence is None:
            return -1, 0
        if not self._core.restore(sequence, state):
            self.forget(sequence)
            return -1, 0
        self._shelf.use(key)
        self._cells.take(sequence, len(copied))
        self._core.cut(sequence, length)
        self._cells.cut(sequence, length)
        return sequence, length

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
        kept = self._core.can_share and keep >= self._core.least(sequence)
        remaining = keep if kept else 0
        self._core.cut(sequence, remaining)
        self._cells.cut(sequence, remaining)
        return remaining

    def keep(
        self, sequence: int, tokens: Tokens, needed: int, others: Iterable[tuple[int, Tokens]]
    ) -> None:
        """Cache what a finished request computed, unless another sequence holds it too.

        Nor is it cached where too much of it lies behind a sliding window to serve any prompt.

        Args:
            sequence: The request's sequence.
            tokens: Those of its tokens that are worth caching.
            needed: How many of them another sequence must hold to make this one redundant: one
                more sample of a cached prompt is not worth caching.
            others: Running sequences, with their computed tokens.
        """
        running = longest_prefix(tokens, others, self._core.least)
        known = max(self.find(tokens)[1], running[1])
        if known >= min(len(tokens), needed) or self._core.least(sequence) > len(tokens):
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
