"""Log-probabilities of continuations from a GGUF file, on the weights of the chat model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragweave.errors import ModelError, UsageError
from ragweave.tools.models.llamacpp import LlamaCppChat
from ragweave.tools.models.llamacpp_engine import encoded, llama_cpp, log_softmax, reuse_prefix
from ragweave.tools.scorers.specs import checked_score


class LlamaCppScorer:
    """Scores continuations with a GGUF model.

    Prompt and continuation are tokenised separately and joined as ids, as `HuggingFaceScorer`
    does. What prompts share at their beginning is computed once, and only the logits that predict
    a continuation are. Safe under threads, which take turns.

    Examples:
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
        **settings: Any,
    ) -> None:
        """Take a chat model, whose weights are then shared, or a GGUF file.

        Args:
            model: The model; its weights load at the first call.
            end_token: Whether the end-of-sequence token counts as part of the continuation.
            max_tokens: Longest input in tokens; longer prompts lose their beginning. None takes
                the context.
            settings: How a file is loaded (`n_gpu_layers`, `n_ctx`, …), as for `LlamaCppChat`.

        Raises:
            UnusableModelError: The file is missing, damaged, or makes embeddings only.
            UsageError: A setting is out of range, or settings were given with a chat model.
        """
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"max_tokens must be at least 1, not {max_tokens}")
        if not isinstance(model, LlamaCppChat):
            model = LlamaCppChat(path=str(model), **settings)
        elif settings:
            raise UsageError("settings apply to a file only: a chat model has its own")
        self._chat = model
        self.end_token = end_token
        self.max_tokens = min(max_tokens or self._chat.context, self._chat.context)

    @property
    def model_name(self) -> str:
        """The model's file."""
        return self._chat.path

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the summed natural-log probability of each continuation given its prompt.

        Raises:
            MissingExtraError: llama-cpp-python is not installed.
            ModelError: The model can't be loaded or fails.
            UsageError: A continuation alone is longer than the context.
        """
        if not pairs:
            return []
        with self._chat.weights.turn() as llama:
            # Sorted, so that neighbours share as much of their beginnings as they can.
            unique = sorted(set(pairs))
            scores = {pair: _score(llama, *self._encode(llama, *pair)) for pair in unique}
        return [scores[pair] for pair in pairs]

    def _encode(self, llama: Any, prompt: str, continuation: str) -> tuple[list[int], list[int]]:
        start, end = llama.token_bos(), llama.token_eos()
        head, tail = encoded(llama, prompt), encoded(llama, continuation, begins=False)
        if self.end_token and end >= 0:
            tail.append(end)
        # An empty prompt: a token that texts begin or end with stands for it.
        head = head or [max(start, end)]
        if head == [-1]:
            raise ModelError("the tokenizer has no special token to stand for an empty prompt")
        room = self.max_tokens - len(tail)
        if room < 1:
            raise UsageError(
                f"the text to score has {len(tail)} tokens, but the model takes {self.max_tokens}, "
                "prompt included: shorten the text"
            )
        if len(head) > room:
            first = head[:1] if head[0] == start and room > 1 else []
            head = [*first, *head[len(head) - room + len(first) :]]
        return head, tail


def _score(llama: Any, head: list[int], tail: list[int]) -> float:
    """Return the log-probability of `tail` behind `head`."""
    if not tail:
        return 0.0
    tokens, total = [*head, *tail[:-1]], 0.0
    for at in range(reuse_prefix(llama, tokens[: len(head)]), len(tokens), llama.n_batch):
        part = tokens[at : at + llama.n_batch]
        wanted = range(max(0, len(head) - 1 - at), len(part))
        _decode(llama, part, wanted)
        total += sum(log_softmax(llama, i)[tail[at + i - len(head) + 1]] for i in wanted)
    return checked_score(float(total))


def _decode(llama: Any, tokens: Sequence[int], wanted: range) -> None:
    """Add tokens to the context and compute the logits at some of them; `Llama.eval` takes one."""
    lib, at = llama_cpp(), llama.n_tokens
    batch = lib.llama_batch_init(len(tokens), 0, 1)
    try:
        batch.n_tokens = len(tokens)
        for i, token in enumerate(tokens):
            batch.token[i], batch.pos[i], batch.logits[i] = token, at + i, i in wanted
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, 0
        if code := lib.llama_decode(llama.ctx, batch):
            raise RuntimeError(f"llama_decode returned {code}")
    finally:
        lib.llama_batch_free(batch)
    llama.input_ids[at : at + len(tokens)] = tokens
    llama.n_tokens = at + len(tokens)
