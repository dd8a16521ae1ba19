"""Trained components that write: sequence-to-sequence models, and causal ones with low-rank adapters.

Decoding is greedy. Importing it imports torch.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ragweave.errors import need
from ragweave.tools.models.huggingface import device, model_folder, model_of, tokenizer_of
from ragweave.tools.trained.card import Card, Role
from ragweave.tools.trained.forms import Input, fitted, lead


class Written(NamedTuple):
    """A reply."""

    text: str
    input_tokens: int
    output_tokens: int
    finished: bool
    """Whether it ended by itself."""
    cut: bool
    """Whether the end of the input was not read."""


class Writer:
    """Writes texts; threads take turns."""

    def __init__(self, model: Any, tokenizer: Any, role: Role, max_input: int, max_output: int) -> None:
        """Take a transformers model with its tokenizer, and the most tokens to read and to write."""
        self._model, self._tokenizer, self._role = model, tokenizer, role
        self._max_input, self._max_output, self._lock = max_input, max_output, threading.Lock()

    def write(self, question: str, inputs: Sequence[Input]) -> list[Written]:
        """Return what the model writes for each input of a question."""
        with self._lock:
            return [self._written(question, one) for one in inputs]

    def _written(self, question: str, given: Input) -> Written:
        causal = not self._model.config.is_encoder_decoder
        if causal:
            given = given._replace(tail=given.tail + lead(self._role, question))
        text, cut = fitted(self._tokenizer, given, self._max_input)
        inputs = self._tokenizer(text, return_tensors="pt", return_token_type_ids=False).to(self._model.device)
        with torch.inference_mode():
            (made,) = self._model.eval().generate(
                **inputs,
                max_new_tokens=self._max_output,
                do_sample=False,
                num_beams=1,
                eos_token_id=self._tokenizer.eos_token_id,
                pad_token_id=self._tokenizer.pad_token_id,
            )
        read = inputs["input_ids"].shape[1]
        new = made[read:] if causal else made[1:]
        finished = bool((new == self._tokenizer.eos_token_id).any())
        return Written(self._tokenizer.decode(new, skip_special_tokens=True).strip(), read, len(new), finished, cut)


def load_writer(folder: Path, card: Card) -> Writer:
    """Load a component that writes; the base of its adapters must be on this machine."""
    where = device()
    dtype = torch.bfloat16 if where == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    if card.kind == "seq2seq":
        model = model_of(folder, "AutoModelForSeq2SeqLM", dtype=dtype)
    else:
        need("A component with adapters", "train", "peft")
        from peft import PeftModel

        base = model_of(model_folder(card.base, folder), "AutoModelForCausalLM", dtype=dtype)
        model = PeftModel.from_pretrained(base, str(folder), local_files_only=True)
    return Writer(model.to(where), tokenizer_of(folder), card.role, card.max_input, card.max_output)
