"""Trained cross-encoders, ours: a pair of texts in, a probability out. Importing it imports torch."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from ragweave.tools.models.weights import device, model_of, tokenizer_of
from ragweave.tools.trained.card import Card

_BATCH = 32


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

    def chances(self, question: str, draft: str) -> list[float]:
        """Return the probability that a draft is known, alone in a list."""
        return self.probabilities([(question, draft)])

    def _some(self, pairs: list[tuple[str, str]]) -> list[float]:
        inputs = self._tokenizer(pairs, padding=True, truncation=True, max_length=self._limit, return_tensors="pt")
        logits = self._model(**inputs.to(self._model.device)).logits[:, 0].float()
        found: list[float] = torch.sigmoid(logits).tolist()
        return found


def load_cross_encoder(folder: Path, card: Card) -> CrossEncoderScorer:
    """Load a trained cross-encoder."""
    model = model_of(folder, "AutoModelForSequenceClassification", dtype=torch.float32)
    return CrossEncoderScorer(tokenizer_of(folder), model.to(device()), card.max_input)
