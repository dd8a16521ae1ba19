"""Greedy generation in padded batches of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def generate(model: Any, rows: Sequence[list[int]], limit: int) -> list[list[int]]:
    """Return the new tokens of each row, up to and with the first end token.

    Args:
        model: A transformers model with greedy settings (`weights.greedy`).
        rows: Token ids of the inputs; at least one.
        limit: Most new tokens a row.
    """
    import torch

    causal = not model.config.is_encoder_decoder
    width = max(map(len, rows))
    pad = model.generation_config.pad_token_id
    ids, mask = (torch.full((len(rows), width), fill) for fill in (pad, 0))
    for i, row in enumerate(rows):
        # A causal model goes on from the right end, so its padding stands on the left.
        place = slice(width - len(row), width) if causal else slice(len(row))
        ids[i, place], mask[i, place] = torch.tensor(row), 1
    with torch.inference_mode():
        made = model.generate(
            input_ids=ids.to(model.device),
            attention_mask=mask.to(model.device),
            max_new_tokens=limit,
        )
    new = made[:, width:] if causal else made[:, 1:]
    stop = ends(model)
    return [_up_to(row, stop) for row in new.tolist()]


def ends(model: Any) -> frozenset[int]:
    """Return the tokens that end an output."""
    found = model.generation_config.eos_token_id
    return frozenset([found] if isinstance(found, int) else found)


def without_end(ids: list[int], end: int | None) -> list[int]:
    """Drop end tokens behind a causal prompt: they would make the output a new text."""
    while end is not None and len(ids) > 1 and ids[-1] == end:
        ids.pop()
    return ids


def _up_to(tokens: list[int], stop: frozenset[int]) -> list[int]:
    for place, token in enumerate(tokens):
        if token in stop:
            return tokens[: place + 1]
    return tokens
