"""Trained parts that generate text: sequence-to-sequence models, and causal ones with adapters.

Decoding is greedy, in padded batches of token ids.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.errors import UsageError
from ragweave.tools.scorers.huggingface import find_base_model
from ragweave.trained.card import WRITES, PartRole, check_safe, read_card
from ragweave.trained.forms import LEADS, PartInput, truncate_input
from ragweave.trained.weights import (
    best_device,
    greedy,
    has_bfloat16,
    need_transformers,
    read_model,
    read_tokenizer,
    with_adapter,
)


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
        # A causal model continues at the right end, so its padding is on the left.
        columns = slice(width - len(row), width) if causal else slice(len(row))
        ids[i, columns], mask[i, columns] = torch.tensor(row), 1
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
    for index, token in enumerate(tokens):
        if token in stop:
            return tokens[: index + 1]
    return tokens


_OPENED = re.compile(r"<\s+(?=/?[A-Z])")


class Written(NamedTuple):
    """One output."""

    text: str
    input_tokens: int
    """Tokens read, special ones too."""
    output_tokens: int
    """Every token that the model chose, its end token included."""
    finished: bool
    """False: it reached `max_new_tokens`."""
    cut: bool
    """Whether the input was cut to fit."""


class TextWriter:
    """Writes greedily in padded batches; calls from several threads take turns.

    Inputs are the role's own (`ragweave.trained.forms`); what a causal model needs between input and
    output is put there by the writer.

    Example:
        >>> writer = load_writer("generator/", "generator")  # doctest: +SKIP
        >>> writer.write([generator_input("who wrote Hamlet", passages)])  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        role: PartRole,
        *,
        max_input: int,
        max_output: int,
        batch: int = 8,
    ) -> None:
        """Take a loaded model, as it stands on its device.

        Args:
            model: A transformers model, causal or encoder-decoder.
            tokenizer: Its tokenizer.
            role: What the part does.
            max_input: Most tokens that it reads; longer inputs lose the end of their body.
            max_output: Most tokens that it writes, where a call does not say.
            batch: Inputs at once.
        """
        self.role, self.batch, self.max_output = role, batch, max_output
        self.causal = not model.config.is_encoder_decoder
        self.max_input = input_limit(model.config, max_input, max_output)
        self.model, self.tokenizer = model, tokenizer
        self._lock = threading.RLock()

    def write(
        self, inputs: Sequence[PartInput | str], max_new_tokens: int | None = None
    ) -> list[Written]:
        """Return what the part writes for each input, greedily.

        Raises:
            UsageError: `max_new_tokens` is below 1, or leaves no room for an input in a causal
                model's context, or a question alone is too long to read.
        """
        limit = self.max_output if max_new_tokens is None else max_new_tokens
        if limit < 1:
            raise UsageError(f"max_new_tokens must be at least 1, not {limit}")
        room = input_limit(self.model.config, self.max_input, limit)
        with self._lock:
            return self._written(inputs, room, limit)

    def _written(self, inputs: Sequence[PartInput | str], room: int, limit: int) -> list[Written]:
        fitted = [truncate_input(self.tokenizer, self._led(one), room) for one in inputs]
        end = self.tokenizer.eos_token_id if self.causal else None
        ids = [without_end(one.tokens, end) for one in fitted]
        outputs: dict[int, list[int]] = {}
        order = sorted(range(len(ids)), key=lambda i: -len(ids[i]))
        for first in range(0, len(order), self.batch):
            chosen = order[first : first + self.batch]
            new = generate(self.model, [ids[i] for i in chosen], limit)
            outputs.update(zip(chosen, new, strict=True))
        return [
            Written(
                text=self.decode(outputs[i]),
                input_tokens=len(ids[i]),
                output_tokens=len(outputs[i]),
                finished=bool(outputs[i]) and outputs[i][-1] in ends(self.model),
                cut=fitted[i].cut,
            )
            for i in range(len(ids))
        ]

    def score(self, pairs: Sequence[tuple[PartInput | str, str]]) -> list[float]:
        """Return the natural-log probability of each output, end token included, given its input.

        The margin of `KNOWN` over `UNKNOWN` for one input is how sure a judge is.
        """
        from ragweave.tools.scorers import HuggingFaceScorer

        with self._lock:
            texts = [
                (truncate_input(self.tokenizer, self._led(one), self.max_input).text, output)
                for one, output in pairs
            ]
            return HuggingFaceScorer(self.model, self.tokenizer, batch_size=self.batch).score(texts)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of output tokens; marks (`<Known …>`) lose a space that some decoders put in."""
        with self._lock:
            text = self.tokenizer.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        marked = self.role in ("judge", "rewriter")
        return (_OPENED.sub("<", text) if marked else str(text)).strip()

    def _led(self, given: PartInput | str) -> PartInput:
        one = PartInput("", given) if isinstance(given, str) else given
        return one._replace(tail=one.tail + LEADS[self.role]) if self.causal else one


def load_writer(
    folder: str | Path, role: PartRole | None = None, *, device: str | None = None, batch: int = 8
) -> TextWriter:
    """Load a trained part that generates text; no code in the folder is run.

    Args:
        folder: The part's folder.
        role: The role that it must have; None: any.
        device: A torch device; None: a GPU where there is one.
        batch: Inputs at once.

    Raises:
        UsageError: The folder is not a finished part, was trained for another role, is of another
            kind, or contains something that could run as code.
        MissingExtraError: transformers (or peft, for adapters) is not installed.
        ModelError: The weights can't be read, or the base model is not on this machine.
    """
    path = Path(folder)
    card = read_card(path, role)
    if card.kind not in WRITES:
        raise UsageError(
            f"{path}: is a {card.kind}, which does not generate text ({', '.join(WRITES)} do)"
        )
    check_safe(path)
    causal = card.kind == "causal-lora"
    need_transformers("A trained part", "train", *(["peft"] if causal else []))
    tokenizer = read_tokenizer(path)
    chosen = device or best_device()
    dtype = "bfloat16" if has_bfloat16(chosen) else "float32"
    if causal:
        base = read_model(find_base_model(card.base, path), causal=True, dtype=dtype)
        model = with_adapter(base, path)
    else:
        model = read_model(path, causal=False, dtype=dtype)
    greedy(model, tokenizer)
    return TextWriter(
        model.to(chosen).eval(),
        tokenizer,
        card.role,
        max_input=int(card.settings.get("max_input", 1024)),
        max_output=int(card.settings.get("max_output", 512)),
        batch=batch,
    )


def input_limit(config: Any, max_input: int, max_output: int) -> int:
    """Return the most tokens that an input may take, within the model's context.

    Raises:
        UsageError: A causal model's context does not hold the output and any input.
    """
    context = getattr(config, "max_position_embeddings", None)
    if context is None:
        return max_input
    room = int(context) if config.is_encoder_decoder else int(context) - max_output
    if room < 1:
        raise UsageError(
            f"{max_output} tokens of output leave no room for an input: the model's context is "
            f"only {context} tokens; lower max_output, or the call's own limit"
        )
    return min(max_input, room)
