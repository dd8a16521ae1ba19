"""What the scheduler works on: a run of tokens, and what becomes of the logits."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import RagweaveError
from ragweave.tools.models.llamacpp.logprobs import Row, logprob_of

Sink = Callable[[object], None]
"""Takes what a job reports, in order; called from the scheduler's thread, must not block."""


class Job(ABC):
    """One request. `tokens` are decoded in order; logits are read from `wanted` on."""

    def __init__(self, prompt: Sequence[int], sink: Sink) -> None:
        """Take at least one token of prompt."""
        self.prompt: NDArray[np.int32] = np.asarray(prompt, np.int32)
        self.tokens = list(prompt)
        self.wanted = len(self.tokens) - 1
        """First position whose logits are still to be read."""
        self.reused = 0
        """Tokens of the prompt that another request had computed."""
        self.keep: int | None = None
        """How many of the tokens are worth keeping computed afterwards; None for all."""
        self.generates = True
        self._sink = sink
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the job any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Give the job up, from any thread; its place is freed before the next batch."""
        self._cancelled.set()

    def report(self, event: object) -> None:
        """Hand an event to whoever waits."""
        try:
            self._sink(event)
        except RuntimeError:
            # The waiting event loop is closed.
            self.cancel()

    def fail(self, error: RagweaveError) -> None:
        """End the job with an error."""
        self.report(error)

    @abstractmethod
    def absorb(self, logits: Row) -> bool:
        """Use the logits of position `wanted`; return whether the job is done.

        The row is only valid during the call.

        Raises:
            RagweaveError: This job can't go on.
        """

    @abstractmethod
    def overflow(self) -> None:
        """End the job: the context is full."""


class ScoreJob(Job):
    """Sums the log-probabilities of a continuation; reports the sum as a float."""

    def __init__(self, prompt: Sequence[int], continuation: Sequence[int], sink: Sink) -> None:
        """Take a prompt and a continuation of at least one token each."""
        # The last token is predicted, never decoded.
        super().__init__([*prompt, *continuation[:-1]], sink)
        self.generates = False
        self.wanted = len(prompt) - 1
        self.keep = len(prompt)
        self._first = self.wanted
        self._targets = list(continuation)
        self._sum = 0.0

    def absorb(self, logits: Row) -> bool:
        """Add the log-probability of the token that follows `wanted`."""
        self._sum += logprob_of(logits, self._targets[self.wanted - self._first])
        self.wanted += 1
        if self.wanted < len(self.tokens):
            return False
        self.report(self._sum)
        return True

    def overflow(self) -> None:
        """Never happens: a pair that is longer than the context is refused before."""
        raise AssertionError("a scored pair outgrew the context")
