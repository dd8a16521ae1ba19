"""The linear judge: one weighted sum over what was read, and the probability that it means."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragweave.tools.parts.judge.encoder import Encoder
from ragweave.tools.parts.judge.reading import read_pairs, texts_of
from ragweave.tools.parts.judge.weights import LinearWeights

_BATCH = 16


class LinearScorer:
    """Scores pairs of question and draft; safe under threads.

    Ours, in no paper: it stands in the place of SlimPLM's fine-tuned judge where a laptop has to
    do. Its features are in `COLUMNS`, so that what it goes by can be looked at.
    """

    def __init__(self, encoder: Encoder, weights: LinearWeights) -> None:
        """Take the encoder that the weights were learnt with."""
        self._encoder, self._weights = encoder, weights

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability that each draft is known, in [0, 1], in order."""
        return [float(1 / (1 + np.exp(-logit))) for logit in np.clip(self.logits(pairs), -500, 500)]

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return what stands before the sigmoid, in order."""
        found: list[float] = []
        for first in range(0, len(pairs), _BATCH):
            read = read_pairs(pairs[first : first + _BATCH], self._encoder, self._weights.reference)
            found += self._weights.logits(read).tolist()
        return found

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens that the encoder reads of each pair: drafts, sentences, candidates."""
        return [self._encoder.count(list(dict.fromkeys(texts_of(*one).all()))) for one in pairs]
