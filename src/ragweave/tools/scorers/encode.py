"""From a prompt and a continuation to token ids, for scoring."""

from __future__ import annotations

from typing import Any, NamedTuple

from ragweave.errors import ModelError, UsageError


class Encoded(NamedTuple):
    """Token ids of one pair; a causal prompt has at least one token."""

    prompt: list[int]
    continuation: list[int]


def start_token(model: Any, tokenizer: Any, *, causal: bool) -> int | None:
    """Return the token that a decoder starts from; None for a causal model, which needs none.

    Raises:
        ModelError: An encoder-decoder model names no start token.
    """
    if causal:
        return None
    for holder in (getattr(model, "generation_config", None), model.config):
        found = getattr(holder, "decoder_start_token_id", None)
        if found is not None:
            return int(found)
    if tokenizer.bos_token_id is None:
        raise ModelError(f"{type(model).__name__} names no decoder start token: it can't score")
    return int(tokenizer.bos_token_id)


def encode(
    tokenizer: Any,
    prompt: str,
    continuation: str,
    *,
    causal: bool,
    start: int | None,
    end_token: bool,
    limit: int | None,
) -> Encoded:
    """Tokenise a pair, the two texts apart.

    Args:
        tokenizer: A transformers tokenizer.
        prompt: What stands before; it gets the tokenizer's own special tokens.
        continuation: What is scored; it gets none but, with `end_token`, the end token.
        causal: Whether both stand in one sequence.
        start: The decoder's start token (encoder-decoder models).
        end_token: Whether to score the end-of-sequence token too.
        limit: Longest sequence in tokens; the prompt loses its beginning to fit.

    Raises:
        UsageError: The continuation alone does not fit.
        ModelError: An empty prompt and no special token to put in its place.
    """
    head = list(tokenizer(prompt, verbose=False)["input_ids"])
    tail = list(tokenizer(continuation, add_special_tokens=False, verbose=False)["input_ids"])
    eos = tokenizer.eos_token_id
    if end_token and eos is not None:
        tail.append(eos)
    if causal:
        # A prompt that ends in the end token would make the continuation a new text.
        while len(head) > 1 and head[-1] == eos:
            head.pop()
    if not head:
        head = [_any_special(tokenizer, start)]
    if limit is not None:
        head = _cut(head, tokenizer.bos_token_id, limit - (len(tail) if causal else 0))
        if len(tail) > limit or not head:
            raise UsageError(
                f"the text to score has {len(tail)} tokens, the model takes {limit}: shorten it"
            )
    return Encoded(head, tail)


def _any_special(tokenizer: Any, start: int | None) -> int:
    """Return a token to stand for an empty prompt."""
    for found in (tokenizer.bos_token_id, tokenizer.eos_token_id, start):
        if found is not None:
            return int(found)
    raise ModelError("the tokenizer has no special token to stand for an empty prompt")


def _cut(head: list[int], bos: int | None, room: int) -> list[int]:
    """Drop tokens at the beginning of `head`, behind a begin-of-sequence token."""
    if len(head) <= room:
        return head
    if room <= 0:
        return []
    if bos is not None and head[0] == bos:
        return [bos, *head[len(head) - room + 1 :]]
    return head[-room:]
