"""Continuous batching: which requests go into the next batch, and what becomes of its logits.

Requests are admitted in order, as long as sequences and KV cells last. A step computes tokens of
all running requests: one each from replies in progress, the rest of a batch from prompts
(`portions`), together where that is quicker (`batches`). Where cells run out, cached prefixes are
evicted first, the least recently used before others; then the youngest request is preempted and
computed again later.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import chain, count, islice

import numpy as np

from ragweave.errors import ModelError, RagweaveError
from ragweave.llamacpp.cache import SequencePool
from ragweave.llamacpp.core import Core, Run
from ragweave.llamacpp.job import Job
from ragweave.llamacpp.prefix import Shelf, Tokens, common_prefix


@dataclass(eq=False)
class Slot:
    """A running request."""

    job: Job
    sequence: int
    age: int
    """Grows with each admission: the highest is the youngest."""
    done: int = 0
    """How many of the job's tokens are computed."""

    @property
    def pending(self) -> int:
        """How many of the job's tokens are still to be computed."""
        return len(self.job.tokens) - self.done

    def run(self, portion: int) -> Run:
        """Return the next `portion` tokens as a part of a batch."""
        tokens = self.job.tokens[self.done : self.done + portion]
        return Run(self.sequence, self.done, tokens, self.job.logits_from)


def all_tokens(job: Job) -> Tokens:
    """Return the prompt and the reply so far; only a preempted request has one."""
    fresh = len(job.tokens) == len(job.prompt)
    return job.prompt if fresh else np.asarray(job.tokens, np.int32)


def portions(slots: list[Slot], budget: int) -> list[tuple[Slot, int]]:
    """Share a batch of `budget` tokens.

    Replies in progress get their one token. Of the rest, half goes to the oldest prompt, so that
    none starves, and half to the others, the shortest first, so that short questions need not
    wait for long ones. Few prompts with many tokens each, rather than equal shares for all:
    attention skips other sequences' tokens only in whole blocks.
    """
    ordered = sorted(slots, key=lambda slot: slot.age)
    plan = [(slot, 1) for slot in ordered if slot.pending == 1][:budget]
    budget -= len(plan)
    prompts = [slot for slot in ordered if slot.pending > 1]
    if not prompts or not budget:
        return plan
    oldest = prompts.pop(0)
    reserved = min(oldest.pending, (budget + 1) // 2)
    for slot in sorted(prompts, key=lambda slot: (slot.pending, slot.age)):
        portion = min(slot.pending, budget - reserved)
        if portion:
            plan.append((slot, portion))
            budget -= portion
    return [*plan, (oldest, min(oldest.pending, budget))]


_TILE = 64
"""Tokens that llama.cpp's flash attention on a CPU computes at a time, in batches of as many."""


def batches(plan: list[tuple[Slot, int]], *, apart: bool) -> list[list[tuple[Slot, int]]]:
    """Split a plan into what one `llama_decode` computes.

    A tile attends to whatever any of its tokens attends to, and is computed in full: on a CPU six
    replies beside a prompt cost as much as 64 tokens that each attend to six contexts. Batches
    smaller than a tile are computed token by token, and skip other sequences' cells.

    Args:
        plan: Requests, and how many tokens of each.
        apart: Whether replies go into batches of their own unless all fit one smaller than a tile.
    """
    if not apart or sum(portion for _, portion in plan) < _TILE:
        return [plan] if plan else []
    replies = [(slot, portion) for slot, portion in plan if portion == 1]
    prompts = [(slot, portion) for slot, portion in plan if portion > 1]
    size = _TILE - 1
    parts = [replies[i : i + size] for i in range(0, len(replies), size)]
    return [*parts, prompts] if prompts else parts


_WORTH_SHARING = 8
"""Tokens; a shorter common prefix is computed again."""
_LOOK_AHEAD = 64
"""How many waiting requests are considered before each batch."""
_MARGIN = 16
"""Free KV cells per running request that must remain when another is admitted."""


class Decoder:
    """Steps through requests batch by batch. Not safe under threads."""

    def __init__(
        self,
        core: Core,
        n_parallel: int,
        *,
        n_kept: int | None = None,
        shelf: Shelf | None = None,
        share: bool = True,
    ) -> None:
        """Start empty.

        Args:
            core: The loaded model.
            n_parallel: Most replies generated at a time.
            n_kept: Most tokens of finished requests that stay in the prefix cache, unless a
                single one holds more; None takes an eighth of the context. Attention runs over
                all cached tokens in each batch, useful or not, so a larger cache rarely pays.
            shelf: Where tokens go that no longer stay there, or that no request begins with as
                another is admitted; None keeps none.
            share: Whether to compute common prefixes once.
        """
        self._core = core
        self._n_parallel = n_parallel
        kept = core.n_ctx // 8 if n_kept is None else n_kept
        self._pool = SequencePool(core, kept, Shelf() if shelf is None else shelf)
        self._share = share and core.can_share
        self._waiting: deque[Job] = deque()
        self._running: list[Slot] = []
        self._one_by_one: deque[Slot] = deque()
        self._ages = count()
        self.batches = 0
        """How many batches were computed."""
        self.computed = 0
        """How many tokens were computed."""

    @property
    def busy(self) -> bool:
        """Whether any request is waiting or running."""
        return bool(self._waiting or self._running)

    @property
    def free(self) -> int:
        """How many more tokens the context has room for."""
        return self._pool.free

    @property
    def running(self) -> int:
        """How many requests are running."""
        return len(self._running)

    def add(self, job: Job) -> None:
        """Queue a request; it must fit the context."""
        self._waiting.append(job)

    def fail_all(self, error: RagweaveError) -> None:
        """End every request with an error."""
        for job in [*(slot.job for slot in self._running), *self._waiting]:
            job.fail(error)
        self._running.clear()
        self._waiting.clear()

    def step(self) -> None:
        """Admit requests, compute a batch of tokens, and pass on its logits."""
        self._drop_cancelled()
        self._admit()
        plan = self._plan()
        for part in batches(plan, apart=self._core.in_memory):
            if not self._compute(part):
                return

    def _drop_cancelled(self) -> None:
        for slot in [slot for slot in self._running if slot.job.cancelled]:
            self._release(slot)
        if any(job.cancelled for job in self._waiting):
            self._waiting = deque(job for job in self._waiting if not job.cancelled)

    # Admission

    def _admit(self) -> None:
        before = len(self._waiting)
        self._admit_waiting()
        if len(self._waiting) < before:
            running = (slot.job for slot in self._running)
            requests = chain(running, islice(self._waiting, _LOOK_AHEAD))
            self._pool.set_idle_aside(job.prompt for job in requests)

    def _admit_waiting(self) -> None:
        for job in list(islice(self._waiting, _LOOK_AHEAD)):
            writing = sum(slot.job.generates for slot in self._running)
            if job.generates and writing >= self._n_parallel:
                return
            source, length, upcoming = self._shared_prefix(job, all_tokens(job))
            if upcoming >= length + _WORTH_SHARING:
                continue
            if not self._start(job, source, length):
                return
            self._waiting.remove(job)

    def _shared_prefix(self, job: Job, tokens: Tokens) -> tuple[int, int, int]:
        """Find computed tokens that a job can start from.

        Returns:
            The sequence that holds them, their number, and the number that will be available once
            the running requests have been computed further.
        """
        if not self._share:
            return -1, 0, 0
        # Logits that are still to be read must be computed, shared prefix or not.
        tokens = tokens[: job.logits_from]
        source, length = self._pool.find(tokens)
        upcoming = 0
        for slot in self._running:
            shared = common_prefix(tokens, slot.job.prompt)
            ready = min(shared, slot.done)
            if slot.done and ready < self._core.least(slot.sequence):
                continue  # it is too far ahead to serve this prefix
            upcoming = max(upcoming, shared)
            if ready > length:
                source, length = slot.sequence, ready
        return (source, length, upcoming) if length >= _WORTH_SHARING else (-1, 0, upcoming)

    def _start(self, job: Job, source: int, length: int) -> bool:
        sequence, length = self._begin(job, source, length)
        if sequence is None:
            return False
        slot = Slot(job, sequence, next(self._ages), length)
        if not job.admitted:
            job.admitted, job.reused = True, length
        self._running.append(slot)
        return True

    def _begin(self, job: Job, source: int, length: int) -> tuple[int | None, int]:
        """Return a sequence for a job and how many of its tokens that holds; None: wait.

        It begins with a copy from main memory, where that holds clearly more than `length` tokens.
        """
        need = len(job.tokens) + int(job.generates) + _MARGIN * len(self._running)
        if self._share:
            usable = all_tokens(job)[: job.logits_from]
            sequence, copied = self._pool.restore(usable, length, need, source)
            if copied:
                return sequence, copied
        if not self._pool.make_room(need - length, excluding=source) and self._running:
            return None, 0
        begun = self._pool.acquire(source, length)
        if begun is None and not self._running:
            # The context has one sequence, which holds that beginning: nobody would ever free it.
            return self._pool.acquire(-1, 0), 0
        return begun, length

    # One batch

    def _plan(self) -> list[tuple[Slot, int]]:
        """Choose how many tokens each request gets into the next batch."""
        while True:
            slots = self._turn()
            plan = portions(slots, self._core.n_batch)
            missing = sum(portion for _, portion in plan) - self._pool.free
            if missing <= 0 or not slots:
                return plan
            if self._pool.evict():
                continue
            if len(self._running) > 1:
                self._preempt(max(self._running, key=lambda slot: slot.age))
                continue
            slot, portion = plan[0]
            if portion > missing:
                return [(slot, portion - missing)]
            slot.job.overflow()
            self._release(slot)

    def _turn(self) -> list[Slot]:
        """Return the requests of the next batch: all, or after a failure one at a time."""
        while self._one_by_one and self._one_by_one[0] not in self._running:
            self._one_by_one.popleft()
        return [self._one_by_one[0]] if self._one_by_one else self._running

    def _compute(self, plan: list[tuple[Slot, int]]) -> bool:
        """Compute a batch and let its requests read their logits; return whether it succeeded."""
        code = self._core.decode([slot.run(portion) for slot, portion in plan])
        if code:
            self._failed(plan, code)
            return False
        if self._one_by_one:
            self._one_by_one.popleft()
        self.batches += 1
        row = 0
        for slot, portion in plan:
            self._pool.take(slot.sequence, portion)
            slot.done += portion
            self.computed += portion
            self._read_logits(slot, row - (slot.done - portion))
            row += portion
        return True

    def _read_logits(self, slot: Slot, offset: int) -> None:
        """Let a job read its logits; position p is batch row p + offset."""
        job, end, finished = slot.job, slot.done, False
        try:
            while job.logits_from < end and not finished:
                finished = job.absorb(self._core.logits(job.logits_from + offset))
        except RagweaveError as error:
            job.fail(error)
            self._release(slot)
            return
        if not finished and slot.done >= self._core.n_ctx:
            job.overflow()
            finished = True
        if finished:
            self._retire(slot)

    def _failed(self, plan: list[tuple[Slot, int]], code: int) -> None:
        """Undo a failed batch; its requests are retried one by one, and only the bad one fails."""
        for slot, _ in plan:
            slot.done = self._pool.undo(slot.sequence, slot.done)
        reason = self._core.failure()
        if len(plan) > 1:
            self._one_by_one = deque(slot for slot, _ in plan)
            return
        slot, _ = plan[0]
        slot.job.fail(ModelError(f"llama_decode returned {code}: {reason}"))
        self._release(slot)

    # Sequences

    def _retire(self, slot: Slot) -> None:
        """End a finished request; its tokens stay in the prefix cache."""
        self._running.remove(slot)
        if not self._share:
            self._pool.forget(slot.sequence)
            return
        tokens = np.asarray(slot.job.tokens[: slot.done], np.int32)[: slot.job.keep]
        held = [(other.sequence, other.job.prompt[: other.done]) for other in self._running]
        self._pool.keep(slot.sequence, tokens, len(slot.job.prompt), held)

    def _release(self, slot: Slot) -> None:
        self._running.remove(slot)
        self._pool.forget(slot.sequence)

    def _preempt(self, slot: Slot) -> None:
        self._running.remove(slot)
        self._pool.set_aside(slot.sequence, all_tokens(slot.job)[: slot.done])
        self._waiting.appendleft(slot.job)
