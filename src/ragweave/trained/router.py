"""A trained router: which of none, one or many rounds of retrieval does a question need?

Ours; its task is Adaptive-RAG's (Jeong et al. 2024, section 3.2), its label the cheapest route that
was right. For each route it holds one logistic regression, which gives the probability that the
route's answer is right from the features of question and draft (`router_features`) and from two
vectors (of the question, and of the question with the draft's first sentence). A dearer route is
taken where it adds more than a threshold to that probability, so that one number trades accuracy
for retrieval.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ragweave.state.records import ROUTES, RouteName
from ragweave.trained.card import CARD, card_of, check_router
from ragweave.trained.judge_features import first_sentence
from ragweave.trained.judge_reading import Array, Encoder, load_encoder
from ragweave.trained.linear_weights import read_arrays, write_arrays
from ragweave.trained.router_features import DRAFT_NAMES, draft_features

FILES = "router"


class RouterRead(NamedTuple):
    """Rows of numbers, one a question with its draft."""

    surface: Array
    """(n, len(DRAFT_NAMES))"""
    meaning: Array
    """(n, 2d)"""


def read_drafts(pairs: Sequence[tuple[str, str]], encoder: Encoder) -> RouterRead:
    """Read pairs of question and draft; nothing else goes into a router's choice."""
    plain = [(question.strip(), draft.strip()) for question, draft in pairs]
    texts = [(asked, f"{asked} {first_sentence(said)}".strip()) for asked, said in plain]
    vectors = encoder.vectors([text for pair in texts for text in pair])
    size = encoder.dimension
    meaning = [np.concatenate([vectors[one], vectors[two]]) for one, two in texts]
    surface = [draft_features(*pair) for pair in plain]
    return RouterRead(
        np.asarray(surface, dtype=np.float64).reshape(len(plain), len(DRAFT_NAMES)),
        np.asarray(meaning, dtype=np.float64).reshape(len(plain), 2 * size),
    )


@dataclass(frozen=True)
class RouterWeights:
    """Weights by route, in the order of `ROUTES`."""

    surface: Array
    """(3, len(DRAFT_NAMES))"""
    meaning: Array
    """(3, 2d)"""
    bias: Array
    """(3,)"""

    def probabilities(self, read: RouterRead) -> Array:
        """Return (n, 3): the probability of each route's answer being right."""
        logits = read.surface @ self.surface.T + read.meaning @ self.meaning.T + self.bias
        chances: Array = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
        return chances


def chosen_route(probabilities: Mapping[RouteName, float], threshold: float) -> RouteName:
    """Return the dearest route that adds more than `threshold` to the one it would replace."""
    route: RouteName = "none"
    for dearer in ROUTES[1:]:
        if probabilities[dearer] - probabilities[route] > threshold:
            route = dearer
    return route


class Routed(NamedTuple):
    """A router's choice."""

    route: RouteName
    probabilities: dict[RouteName, float]
    """By route, the probability that its answer is right."""


class Router:
    """Chooses routes; safe under threads."""

    def __init__(
        self, encoder: Encoder, weights: RouterWeights, threshold: float, *, drafts: bool = True
    ) -> None:
        """Take the encoder that the weights were learnt with, and the card's threshold.

        Args:
            encoder: The encoder.
            weights: The weights.
            threshold: What a dearer route must add to the probability of a right answer.
            drafts: Whether it was trained on drafts too; else it reads the question alone.
        """
        self._encoder, self._weights = encoder, weights
        self.threshold, self.drafts = threshold, drafts

    def choose(self, question: str, draft: str, threshold: float | None = None) -> Routed:
        """Choose a route for a question and a draft answer that a model gave without retrieval.

        Args:
            question: The question.
            draft: The draft; may be empty, and is left unread by a router of questions alone.
            threshold: What a dearer route must add to the probability of a right answer; None:
                the card's.
        """
        pair = (question, draft if self.drafts else "")
        (row,) = self._weights.probabilities(read_drafts([pair], self._encoder))
        chances = {name: float(one) for name, one in zip(ROUTES, row, strict=True)}
        return Routed(
            chosen_route(chances, self.threshold if threshold is None else threshold), chances
        )


def write_router(folder: Path, weights: RouterWeights) -> None:
    """Write a router's weights into its folder, and the names of the features they apply to."""
    arrays = {"surface": weights.surface, "meaning": weights.meaning, "bias": weights.bias}
    write_arrays(folder, FILES, arrays, DRAFT_NAMES, weights.meaning.shape[1] // 2)


def _read_weights(folder: Path, dimension: int) -> RouterWeights:
    count = len(ROUTES)
    shapes = {
        "surface": (count, len(DRAFT_NAMES)),
        "meaning": (count, 2 * dimension),
        "bias": (count,),
    }
    found = read_arrays(folder, FILES, DRAFT_NAMES, dimension, shapes)
    return RouterWeights(**{name: found[name] for name in shapes})


_loaded: dict[tuple[str, int], Router] = {}
_lock = threading.Lock()


def load_router(folder: str, device: str = "auto") -> Router:
    """Load a trained router, or return it where it is in memory; nothing in the folder is run.

    Raises:
        UsageError: As `check_router`.
        MissingExtraError: sentence-transformers, or the packaged MiniLM, is not installed.
        ModelError: Weights or embedding model can't be read, or do not match each other.
    """
    path = check_router(folder)
    key = (str(path), (path / CARD).stat().st_mtime_ns)
    with _lock:
        if key not in _loaded:
            card = card_of(path)
            encoder = load_encoder(card.base, path, device)
            weights = _read_weights(path, encoder.dimension)
            drafts = card.settings.get("drafts", True) is not False
            _loaded[key] = Router(encoder, weights, card.threshold or 0.0, drafts=drafts)
        return _loaded[key]
