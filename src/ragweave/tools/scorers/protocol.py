"""What a scorer is: log-probabilities of a continuation given a prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class LogprobScorer(Protocol):
    """Scores continuations; CXMI and the judge's margin work through this protocol.

    An implementation must be safe to call from several threads and must not let the other pairs
    of a call change a pair's score (beyond floating-point noise). Where its model is causal, it
    may say so by an attribute `causal` that is True: CXMI then leads over to the answer.
    """

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return, a pair, the natural-log probability of the continuation given the prompt.

        Args:
            pairs: `(prompt, continuation)`; either text may be empty.

        Returns:
            One number a pair, in order, each at most 0: the sum over the continuation's tokens.
        """
        ...


async def ascore(scorer: LogprobScorer, pairs: Sequence[tuple[str, str]]) -> list[float]:
    """Run `scorer.score(pairs)` in a worker thread, so that the event loop stays free."""
    return await asyncio.to_thread(scorer.score, pairs)
