"""The judge of kind `linear`: logistic regression over features of a question and its draft.

`judge_reading` turns a pair into two rows of numbers; `LinearWeights` holds the learnt weights, in
a safetensors and a JSON file; `LinearScorer` is their sigmoid; `load_linear_scorer` loads both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragweave.errors import UsageError
from ragweave.trained.card import JUDGES, check_safe, read_card
from ragweave.trained.judge_reading import (
    COLUMNS,
    Array,
    Encoder,
    PairFeatures,
    ReferenceMoments,
    load_encoder,
    pair_texts,
    read_pairs,
)
from ragweave.trained.linear_weights import read_arrays, write_arrays

FILES = "judge"

_MOMENT_NAMES = ("question_mean", "question_cov", "name_mean", "name_cov")


@dataclass(frozen=True)
class LinearWeights:
    """Weights of the surface columns and of the vectors, a bias, and reference moments."""

    surface: Array
    """(len(COLUMNS),)"""
    meaning: Array
    """(2d,)"""
    bias: float
    reference: ReferenceMoments

    def logits(self, read: PairFeatures) -> Array:
        """Return the logit of each row, calibrated: its sigmoid is the probability of known."""
        total: Array = read.surface @ self.surface + read.meaning @ self.meaning + self.bias
        return total


def write_weights(folder: Path, weights: LinearWeights) -> None:
    """Write a judge's weights into its folder, and the names of the features they apply to."""
    arrays = {
        "surface": weights.surface,
        "meaning": weights.meaning,
        "bias": np.array([weights.bias]),
        **{name: getattr(weights.reference, name) for name in _MOMENT_NAMES},
    }
    write_arrays(folder, FILES, arrays, COLUMNS, len(weights.meaning) // 2)


def read_weights(folder: Path, dimension: int) -> LinearWeights:
    """Read a judge's weights.

    Args:
        folder: The part's folder.
        dimension: Length of the encoder's vectors.

    Raises:
        ModelError: They are missing, damaged, or were learnt with another encoder or from other
            features than this version computes.
    """
    shapes = {
        "surface": (len(COLUMNS),),
        "meaning": (2 * dimension,),
        "bias": (1,),
        **dict.fromkeys(("question_mean", "name_mean"), (dimension,)),
        **dict.fromkeys(("question_cov", "name_cov"), (dimension, dimension)),
    }
    found = read_arrays(folder, FILES, COLUMNS, dimension, shapes)
    return LinearWeights(
        found["surface"],
        found["meaning"],
        float(found["bias"][0]),
        ReferenceMoments(*(found[name] for name in _MOMENT_NAMES)),
    )


_BATCH = 16


class LinearScorer:
    """Scores pairs of question and draft; safe under threads.

    Ours, not from a paper: it replaces SlimPLM's fine-tuned judge where only a laptop is at hand.
    Its features are listed in `COLUMNS`, so that its decisions can be inspected.
    """

    def __init__(self, encoder: Encoder, weights: LinearWeights) -> None:
        """Take the encoder that the weights were learnt with."""
        self._encoder, self._weights = encoder, weights

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the probability that each draft is known, in [0, 1], in order."""
        return [float(1 / (1 + np.exp(-logit))) for logit in np.clip(self.logits(pairs), -500, 500)]

    def logits(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return the logits (before the sigmoid), in order."""
        found: list[float] = []
        for first in range(0, len(pairs), _BATCH):
            read = read_pairs(pairs[first : first + _BATCH], self._encoder, self._weights.reference)
            found += self._weights.logits(read).tolist()
        return found

    def count(self, pairs: Sequence[tuple[str, str]]) -> list[int]:
        """Return the tokens that the encoder reads of each pair: drafts, sentences, candidates."""
        return [self._encoder.count(list(dict.fromkeys(pair_texts(*one).all()))) for one in pairs]


def load_linear_scorer(folder: str | Path, device: str = "auto") -> LinearScorer:
    """Load a linear judge and the embedding model that it was trained with.

    Nothing in either folder is run, and nothing is downloaded.

    Args:
        folder: The part's folder.
        device: Where the embedding model runs: `auto`, `cpu`, `cuda`, `cuda:1`.

    Raises:
        UsageError: The folder is not a finished judge of this kind, or something in it could run.
        MissingExtraError: sentence-transformers, or the packaged MiniLM, is not installed.
        ModelError: Weights or embedding model can't be read, or do not match each other.
    """
    path = Path(folder)
    card = read_card(path, "judge")
    if card.kind not in JUDGES:
        kinds = " or ".join(JUDGES)
        raise UsageError(f"{path}: is a {card.kind}, but a {kinds} judge is needed here")
    check_safe(path)
    encoder = load_encoder(card.base, path, device)
    return LinearScorer(encoder, read_weights(path, encoder.dimension))
