"""Trained components that write: sequence-to-sequence models, and causal ones with low-rank adapters. They decode greedily."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ragweave.errors import need
from ragweave.tools.models.huggingface import device, model_folder, model_of, tokenizer_of
from ragweave.tools.trained.card import Card, TrainedRole
from ragweave.tools.trained.forms import Input, fitted, lead


class WrittenText(NamedTuple):
    """A reply."""

    text: str
    input_tokens: int
    output_tokens: int
    finished: bool
    """Whether it ended by itself."""
    cut: bool
    """Whether the end of the input was not read."""


@dataclass(frozen=True)
class TextWriter:
    """Writes texts."""

    model: Any
    """A model of transformers."""
    tokenizer: Any
    role: TrainedRole
    max_input: int
    """Maximum number of tokens read."""
    max_output: int
    """Maximum number of tokens written."""

    def write(self, question: str, inputs: Sequence[Input]) -> list[WrittenText]:
        """Return what the model writes for each input of a question."""
        return [self._written(question, given) for given in inputs]

    def _written(self, question: str, given: Input) -> WrittenText:
        causal = not self.model.config.is_encoder_decoder
        if causal:
            given = given._replace(tail=given.tail + lead(self.role, question))
        text, cut = fitted(self.tokenizer, given, self.max_input)
        inputs = self.tokenizer(text, return_tensors="pt", return_token_type_ids=False).to(self.model.device)
        with torch.inference_mode():
            (output,) = self.model.eval().generate(
                **inputs,
                max_new_tokens=self.max_output,
                do_sample=False,
                num_beams=1,
                eos_token_id=self.tokenizer.eos_token_id,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        read = inputs["input_ids"].shape[1]
        new = output[read:] if causal else output[1:]
        finished = bool((new == self.tokenizer.eos_token_id).any())
        return WrittenText(self.tokenizer.decode(new, skip_special_tokens=True).strip(), read, len(new), finished, cut)


def load(folder: Path, card: Card) -> Any:
    """Load a writer; the base of adapters must be on this machine."""
    where = device()
    dtype = torch.bfloat16 if where == "cuda" and torch.cuda.is_bf16_supported() else torch.float32
    if card.kind == "seq2seq":
        model = model_of(folder, "AutoModelForSeq2SeqLM", dtype=dtype)
    else:
        need("A component with adapters", "train", "peft")
        from peft import PeftModel

        base = model_of(model_folder(card.base), "AutoModelForCausalLM", dtype=dtype)
        model = PeftModel.from_pretrained(base, str(folder), local_files_only=True)
    return TextWriter(model.to(where), tokenizer_of(folder), card.role, card.max_input, card.max_output)
