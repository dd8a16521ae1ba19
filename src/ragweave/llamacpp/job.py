"""The scheduler's jobs: scoring a continuation, and generating a reply.

A job is a sequence of tokens to decode, and the use that it makes of their logits.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import RagweaveError
from ragweave.llamacpp.sampling import (
    Grammar,
    Row,
    Sampler,
    Sampling,
    best,
    log_normaliser,
    logprob_of,
)
from ragweave.llamacpp.vocabulary import TextFlow, Vocabulary

Sink = Callable[[object], None]
"""Receives a job's events in order; called from the scheduler's thread, must not block."""


class Job(ABC):
    """One request. `tokens` are decoded in order; logits are read from `logits_from` on."""

    def __init__(self, prompt: Sequence[int], sink: Sink) -> None:
        """Take at least one token of prompt."""
        self.prompt: NDArray[np.int32] = np.asarray(prompt, np.int32)
        self.tokens = list(prompt)
        self.logits_from = len(self.tokens) - 1
        """First position whose logits are still to be read."""
        self.admitted = False
        """Whether it was begun, be it put off again since."""
        self.reused = 0
        """Tokens of the prompt that another request had computed."""
        self.keep: int | None = None
        """How many of the tokens are worth keeping computed afterwards; None for all."""
        self.generates = True
        self._sink = sink
        self._cancelled = threading.Event()

    @property
    def cancelled(self) -> bool:
        """Whether nobody is waiting for the job any more."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel the job, from any thread; its sequence is freed before the next batch."""
        self._cancelled.set()

    def report(self, event: object) -> None:
        """Pass an event to the sink."""
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
        """Use the logits of position `logits_from`; return whether the job is done.

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
        self.logits_from = len(prompt) - 1
        self.keep = len(prompt)
        self._first = self.logits_from
        self._targets = list(continuation)
        self._sum = 0.0

    def absorb(self, logits: Row) -> bool:
        """Add the log-probability of the token that follows `logits_from`."""
        self._sum += logprob_of(logits, self._targets[self.logits_from - self._first])
        self.logits_from += 1
        if self.logits_from < len(self.tokens):
            return False
        self.report(self._sum)
        return True

    def overflow(self) -> None:
        """Never happens: a pair that is longer than the context is rejected earlier."""
        raise AssertionError("a scored pair is longer than the context")


Reason = Literal["stop", "length"]

_MOST_UNSPOKEN = 16
"""Tokens of white space behind a thinking block that do not count towards the reply's limit; more
do, so that a model that writes nothing else comes to an end."""


@dataclass(frozen=True)
class Request:
    """Settings of one reply."""

    sampling: Sampling = field(default_factory=Sampling)
    max_tokens: int | None = None
    """Most tokens of the reply, whether or not they complete a character; None: as many as the
    context holds."""
    stops: tuple[str, ...] = ()
    grammar: str | None = None
    logprobs: bool = False
    top_logprobs: int = 0
    thinking_tokens: int = 2048
    """Most tokens of a thinking block; they do not count towards `max_tokens`, nor does the white
    space behind it."""


@dataclass(frozen=True)
class Piece:
    """A piece of the reply; the text may be empty where several tokens' come together."""

    text: str
    logprob: dict[str, Any] | None = None


@dataclass(frozen=True)
class Finished:
    """The end of a reply."""

    text: str
    """The text that had been held back."""
    reason: Reason
    prompt_tokens: int
    reply_tokens: int
    """Every token that the model chose, its end token included."""
    reused_tokens: int
    pieces: tuple[Piece, ...] = ()
    """All pieces, where the job does not stream."""
    thought: str = ""
    """The thinking block, which is not part of the reply."""
    cut: bool = False
    """Whether a part of the prompt was dropped."""


class GenerationJob(Job):
    """Generates one reply; reports `Piece`s and then `Finished`, or an error."""

    def __init__(
        self,
        prompt: Sequence[int],
        request: Request,
        vocabulary: Vocabulary,
        sink: Sink,
        *,
        stream: bool = False,
        marks: tuple[str, str] | None = None,
        cut: bool = False,
    ) -> None:
        """Take a tokenised prompt.

        Args:
            prompt: At least one token.
            request: Settings of the reply.
            vocabulary: The model's tokenizer.
            sink: Receives the events.
            stream: Whether to report each piece as it comes, or all at the end.
            marks: The marks of a thinking block that the prompt opened.
            cut: Whether a part of the prompt was dropped.

        Raises:
            UsageError: The grammar can't be read.
        """
        super().__init__(prompt, sink)
        self._request, self._cut = request, cut
        self._vocabulary = vocabulary
        self._grammar = Grammar(vocabulary, request.grammar) if request.grammar else None
        self._sampler = Sampler(request.sampling, self._grammar, prompt)
        self._flow = TextFlow(request.stops, marks=marks)
        self._thought = 0
        """Tokens of the thinking block."""
        self._forced: deque[int] = deque()
        """Tokens that come next, whatever the model would choose."""
        self._unspoken = 0
        """Tokens that stand between the thinking block and the reply."""
        self._entries: deque[tuple[int, dict[str, Any]]] = deque()
        """Log-probabilities held back with their tokens' text: where it begins, and the entry."""
        self._stream = stream
        self._pieces: list[Piece] = []

    @property
    def written(self) -> int:
        """Tokens chosen so far."""
        return len(self.tokens) - len(self.prompt)

    def absorb(self, logits: Row) -> bool:
        """Choose the next token."""
        forced = bool(self._forced)
        token = self._forced.popleft() if forced else self._sampler.pick(logits)
        self.tokens.append(token)
        self.logits_from += 1
        if self._vocabulary.ends(token):
            return self._finish("stop")
        thought, start = self._flow.thinking.thinking, self._flow.position
        text = self._flow.push(self._vocabulary.piece(token))
        thought = thought or self._flow.thinking.thinking
        if thought:
            self._think()
        elif forced or self._flow.dropping:
            self._unspoken += forced or self._unspoken < _MOST_UNSPOKEN
        elif self._request.logprobs:
            self._entries.append((start, self._logprob(logits, token)))
        if thought or self._flow.dropping:
            self._entries.clear()  # parts of the mark, or of a space, that took several tokens
        self._emit(text)
        if self._flow.stopped:
            return self._finish("stop")
        limit = self._request.max_tokens
        counted = self.written - self._thought - self._unspoken
        return self._finish("length") if limit is not None and counted >= limit else False

    def _think(self) -> None:
        """Count a token of the thinking block; end the block where it is too long."""
        self._thought += 1
        flow = self._flow.thinking
        if flow.thinking and self._thought == self._request.thinking_tokens:
            self._forced.extend(self._vocabulary.encode(f"\n{flow.end}\n\n", special=True))

    def overflow(self) -> None:
        """End the reply where the context ends."""
        self._finish("length")

    def fail(self, error: RagweaveError) -> None:
        """End the job with an error."""
        self._close()
        super().fail(error)

    def _finish(self, reason: Reason) -> bool:
        self._close()
        counts = len(self.prompt), self.written, self.reused
        text, thought = self._flow.flush(), self._flow.thinking.thought.strip()
        self._emit(whole=not self._flow.stopped)
        self.report(Finished(text, reason, *counts, tuple(self._pieces), thought, self._cut))
        return True

    def _emit(self, text: str = "", *, whole: bool = False) -> None:
        """Pass on text, and the entries of tokens whose text has begun to be passed on.

        The text of a stop sequence never is, so its tokens' entries stay behind.

        Args:
            text: What the flow has released.
            whole: Whether to pass on all entries, the reply being whole.
        """
        ready: list[dict[str, Any] | None] = []
        while self._entries and (whole or self._entries[0][0] < self._flow.released):
            ready.append(self._entries.popleft()[1])
        if text and not ready:
            ready.append(None)
        for number, entry in enumerate(ready, start=1):
            piece = Piece(text if number == len(ready) else "", entry)
            if self._stream:
                self.report(piece)
            else:
                self._pieces.append(piece)

    def _close(self) -> None:
        if self._grammar is not None:
            self._grammar.close()

    def _logprob(self, logits: Row, token: int) -> dict[str, Any]:
        """Describe a token as OpenAI's log-probabilities do (temperature 1, no truncation)."""
        normaliser = log_normaliser(logits)
        likely = best(logits, self._request.top_logprobs) if self._request.top_logprobs else ()
        return {
            **self._entry(token, float(logits[token]) - normaliser),
            "top_logprobs": [self._entry(int(t), float(logits[t]) - normaliser) for t in likely],
        }

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        piece = self._vocabulary.piece(token) or self._vocabulary.text(token).encode()
        return {
            "token": piece.decode("utf-8", "replace"),
            "bytes": list(piece),
            "logprob": min(0.0, logprob),
        }
