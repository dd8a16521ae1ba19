"""Log-probabilities from a local GGUF model: many pairs per batch, shared prefixes computed once."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragweave.errors import ModelError, RagweaveError, UsageError
from ragweave.llamacpp.chat import LlamaCppChat
from ragweave.llamacpp.engine import Engine
from ragweave.llamacpp.job import ScoreJob
from ragweave.tools.deadline import TimeLimit


class LlamaCppScorer:
    """Scores continuations with a GGUF model through llama.cpp.

    Prompt and continuation are tokenised separately and joined as ids, as `HuggingFaceScorer`
    does. Pairs share the batches of the chat model's scheduler with the replies that it generates;
    only the logits that predict a continuation are computed. Safe under threads.

    Example:
        >>> scorer = LlamaCppScorer("model.gguf", n_ctx=4096)  # doctest: +SKIP
        >>> scorer.score([("The capital of France is", " Paris")])  # doctest: +SKIP
    """

    causal = True
    """The model continues its prompt (a decoder-only model)."""

    def __init__(
        self,
        model: LlamaCppChat | str | Path,
        *,
        end_token: bool = True,
        max_tokens: int | None = None,
        timeout: float | None = None,
        **settings: Any,
    ) -> None:
        """Take a chat model, whose weights are then shared, or a GGUF file.

        Args:
            model: The model; a file's weights load at the first call.
            end_token: Whether the end-of-sequence token counts as part of the continuation.
            max_tokens: Longest input in tokens; longer prompts lose their beginning. None takes
                the context.
            timeout: Most seconds that a call of `score` may take.
            settings: How a file is loaded (`n_gpu_layers`, `n_ctx`, …), as for `LlamaCppChat`.

        Raises:
            ModelError: The file is missing, damaged, or makes embeddings only.
            UsageError: A setting is out of range, or settings were given with a chat model.
        """
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
        if isinstance(model, LlamaCppChat):
            if settings:
                raise UsageError("settings apply to a file only: a chat model has its own")
            self._chat = model
        else:
            self._chat = LlamaCppChat(path=str(model), **settings)
        self.end_token = end_token
        self.max_tokens = max_tokens
        self.timeout = timeout

    @property
    def model_name(self) -> str:
        """The model's file."""
        return self._chat.path

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: llama-cpp-python is not installed.
            ModelError: The model can't be loaded or fails.
            RunTimeoutError: It took longer than `timeout` seconds, or than its run may take.
            UsageError: A continuation alone is longer than the context.
        """
        if not pairs:
            return []
        # A pair that comes more than once, as CXMI's base does, is computed once.
        unique = list(dict.fromkeys(pairs))
        scores = dict(zip(unique, self._score(unique), strict=True))
        return [scores[pair] for pair in pairs]

    def _score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        engine = self._chat.engine
        scores = [0.0] * len(pairs)
        done: queue.SimpleQueue[tuple[int, object]] = queue.SimpleQueue()
        jobs: list[ScoreJob] = []
        for i, (prompt, continuation) in enumerate(pairs):
            head, tail = self._encode(engine, prompt, continuation)
            if tail:
                jobs.append(ScoreJob(head, tail, lambda event, i=i: done.put((i, event))))  # type: ignore[misc]
        limit = TimeLimit(self.timeout, "scoring")
        try:
            for job in jobs:
                engine.submit(job)
            for _ in jobs:
                i, event = done.get(timeout=limit.left())
                scores[i] = _number(event)
        except queue.Empty as error:
            raise limit.error() from error
        finally:
            for job in jobs:
                job.cancel()
        return scores

    def _encode(
        self, engine: Engine, prompt: str, continuation: str
    ) -> tuple[list[int], list[int]]:
        vocabulary = engine.vocabulary
        head, tail = vocabulary.encode(prompt, start=True), vocabulary.encode(continuation)
        if self.end_token and vocabulary.end >= 0:
            tail.append(vocabulary.end)
        # A prompt that ends in the end token would make the continuation a new text.
        while len(head) > 1 and head[-1] == vocabulary.end:
            head.pop()
        if not head:
            head = [next((t for t in (vocabulary.start, vocabulary.end) if t >= 0), -1)]
        if head == [-1]:
            raise ModelError("the tokenizer has no special token to stand for an empty prompt")
        limit = min(engine.n_ctx, self.max_tokens or engine.n_ctx)
        if len(tail) >= limit:
            raise UsageError(
                f"the text to score has {len(tail)} tokens, but the model takes {limit}, prompt "
                "included: shorten the text"
            )
        room = limit - len(tail)
        if len(head) > room:
            start = head[:1] if head[0] == vocabulary.start and room > 1 else []
            head = start + head[len(head) - room + len(start) :]
        return head, tail


def _number(event: object) -> float:
    if isinstance(event, RagweaveError):
        raise event
    if not isinstance(event, float):
        raise TypeError(f"expected a score, got {event!r}")
    return event
