"""Trained cross-encoders: a pair of texts in, a probability out. Importing it imports torch.

Ours: a judge reads question and draft answer, a filter the question and a sentence between its neighbours.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ragweave.tools.models.weights import device, model_of, tokenizer_of
from ragweave.tools.trained.card import loaded_once, read_card
from ragweave.tools.trained.forms import Passage

_BATCH = 32
_ROUND = str.maketrans("[]", "()")


def sentence_pairs(question: str, passages: Sequence[Passage]) -> list[tuple[str, str]]:
    """Return a pair for each sentence: the question, and `title | [ sentence ] before after`, which is cut at its end."""
    return [
        (question, f"{title} | [ {one.translate(_ROUND)} ] {around.translate(_ROUND)}".strip())
        for title, sentences in passages
        for one, around in zip(sentences, _neighbours(sentences), strict=True)
    ]


def _neighbours(sentences: Sequence[str]) -> list[str]:
    return [" ".join([*sentences[max(at - 1, 0) : at], *sentences[at + 1 : at + 2]]) for at in range(len(sentences))]


class CrossEncoderScorer:
    """Gives probabilities to pairs of texts; threads take turns."""

    def __init__(self, tokenizer: Any, model: Any, limit: int) -> None:
        """Take a transformers model with one label, and the most tokens of a pair."""
        self._tokenizer, self._model, self._limit, self._lock = tokenizer, model, limit, threading.Lock()

    def probabilities(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability of each pair, in [0, 1]; those too long lose the end of the longer text."""
        with self._lock, torch.inference_mode():
            self._model.eval()
            return [one for at in range(0, len(pairs), _BATCH) for one in self._some(list(pairs[at : at + _BATCH]))]

    def _some(self, pairs: list[tuple[str, str]]) -> list[float]:
        inputs = self._tokenizer(pairs, padding=True, truncation=True, max_length=self._limit, return_tensors="pt")
        logits = self._model(**inputs.to(self._model.device)).logits[:, 0].float()
        found: list[float] = torch.sigmoid(logits).tolist()
        return found


@loaded_once
def load_cross_encoder(folder: Path) -> CrossEncoderScorer:
    """Load a trained cross-encoder (errors as `loaded_once`)."""
    model = model_of(folder, "AutoModelForSequenceClassification", dtype=torch.float32)
    return CrossEncoderScorer(tokenizer_of(folder), model.to(device()), read_card(folder).max_input)
