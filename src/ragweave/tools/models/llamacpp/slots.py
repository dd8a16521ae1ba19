"""Requests in work, and how they share a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ragweave.tools.models.llamacpp.core import Run
from ragweave.tools.models.llamacpp.job import Job
from ragweave.tools.models.llamacpp.prefixes import Tokens


@dataclass(eq=False)
class Slot:
    """A request in work."""

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
        return Run(self.sequence, self.done, tokens, self.job.wanted)


def all_tokens(job: Job) -> Tokens:
    """Return prompt and reply so far, which is the prompt alone but for who stepped back."""
    fresh = len(job.tokens) == len(job.prompt)
    return job.prompt if fresh else np.asarray(job.tokens, np.int32)


def portions(slots: list[Slot], budget: int) -> list[tuple[Slot, int]]:
    """Share a batch of `budget` tokens.

    Replies in progress get their one token. Of the rest, half goes to the oldest prompt, so that
    none starves, and half to the others, the shortest first, so that little questions need not
    wait for long ones. Few prompts with long runs of tokens, rather than equal shares for all:
    attention skips what belongs to other sequences in blocks only.
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
