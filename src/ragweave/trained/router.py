"""A trained router: which of none, one or many rounds of retrieval does a question need?

Ours; its task is Adaptive-RAG's (Jeong et al. 2024, section 3.2), its label the cheapest route that
was right. For each route it holds one logistic regression, which gives the probability that the
route's answer is right from the features of question and draft (`router_features`), from their
words (`router_words`) and from two vectors (of the question, and of the question with the draft's
first sentence). One that was trained with a knowledge base also reads what a first lexical look
finds (`look_queries`); whoever asks it searches and hands over what was found. A dearer route is
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
from numpy.typing import NDArray

from ragweave.state.records import ROUTES, RouteName
from ragweave.trained.card import CARD, card_of, check_router, router_looks
from ragweave.trained.judge_features import first_sentence
from ragweave.trained.judge_reading import Array, Encoder, load_encoder
from ragweave.trained.linear_weights import read_arrays, write_arrays
from ragweave.trained.router_features import (
    DRAFT_NAMES,
    LOOK_NAMES,
    Found,
    draft_features,
    look_features,
    look_queries,
)
from ragweave.trained.router_words import WORDS, HashedWords, hashed_words

FILES = "router"

Mask = NDArray[np.bool_]


class RouterRead(NamedTuple):
    """Rows of numbers, one a question with its draft."""

    surface: Array
    """(n, f): the features of `feature_names`."""
    meaning: Array
    """(n, 2d)"""
    words: list[HashedWords]
    """The words of each row."""

    def of(self, chosen: Mask) -> RouterRead:
        """Return some of the rows."""
        words = [one for one, wanted in zip(self.words, chosen, strict=True) if wanted]
        return RouterRead(self.surface[chosen], self.meaning[chosen], words)


def feature_names(*, looks: bool) -> tuple[str, ...]:
    """Return the names of a router's features, in order, of one that looks or one that doesn't."""
    return (*DRAFT_NAMES, *LOOK_NAMES) if looks else DRAFT_NAMES


def read_drafts(
    pairs: Sequence[tuple[str, str]], encoder: Encoder, found: Sequence[Found] | None = None
) -> RouterRead:
    """Read pairs of question and draft; nothing else goes into a router's choice.

    Args:
        pairs: Questions and drafts.
        encoder: What makes vectors of them.
        found: What each pair's first look found; None: nothing looked.
    """
    plain = [(question.strip(), draft.strip()) for question, draft in pairs]
    texts = [(asked, f"{asked} {first_sentence(said)}".strip()) for asked, said in plain]
    vectors = encoder.vectors([text for pair in texts for text in pair])
    size = encoder.dimension
    meaning = [np.concatenate([vectors[one], vectors[two]]) for one, two in texts]
    surface = [draft_features(*pair) for pair in plain]
    if found is not None:
        looks = [look_features(*pair, one) for pair, one in zip(plain, found, strict=True)]
        surface = [[*one, *look] for one, look in zip(surface, looks, strict=True)]
    width = len(feature_names(looks=found is not None))
    return RouterRead(
        np.asarray(surface, dtype=np.float64).reshape(len(plain), width),
        np.asarray(meaning, dtype=np.float64).reshape(len(plain), 2 * size),
        [hashed_words(*pair) for pair in plain],
    )


@dataclass(frozen=True)
class RouterWeights:
    """Weights by route, in the order of `ROUTES`."""

    surface: Array
    """(3, f)"""
    meaning: Array
    """(3, 2d)"""
    words: Array
    """(3, WORDS)"""
    bias: Array
    """(3,)"""

    def probabilities(self, read: RouterRead) -> Array:
        """Return (n, 3): the probability of each route's answer being right."""
        logits = read.surface @ self.surface.T + read.meaning @ self.meaning.T + self.bias
        for row, said in zip(logits, read.words, strict=True):
            row += self.words[:, said.columns] @ said.values
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
        self,
        encoder: Encoder,
        weights: RouterWeights,
        threshold: float,
        *,
        drafts: bool = True,
        looks: bool = False,
    ) -> None:
        """Take the encoder that the weights were learnt with, and the card's threshold.

        Args:
            encoder: The encoder.
            weights: The weights.
            threshold: What a dearer route must add to the probability of a right answer.
            drafts: Whether it was trained on drafts too; else it reads the question alone.
            looks: Whether it was trained on what a first look found.
        """
        self._encoder, self._weights = encoder, weights
        self.threshold, self.drafts, self.looks = threshold, drafts, looks

    def searches(self, question: str, draft: str) -> dict[str, int]:
        """Return what its first look searches for, and how many passages of each; none: no look."""
        return look_queries(question, draft if self.drafts else "") if self.looks else {}

    def choose(
        self,
        question: str,
        draft: str,
        threshold: float | None = None,
        *,
        found: Found | None = None,
    ) -> Routed:
        """Choose a route for a question and a draft answer that a model gave without retrieval.

        Args:
            question: The question.
            draft: The draft; may be empty, and is left unread by a router of questions alone.
            threshold: What a dearer route must add to the probability of a right answer; None:
                the card's.
            found: What was found for each of `searches`; needed where it looks.

        Raises:
            ValueError: It looks, and nothing was searched for.
        """
        if self.looks and found is None:
            raise ValueError("this router takes a first look: search for each of `searches` first")
        pair = (question, draft if self.drafts else "")
        looked = [found or {}] if self.looks else None
        (row,) = self._weights.probabilities(read_drafts([pair], self._encoder, looked))
        chances = {name: float(one) for name, one in zip(ROUTES, row, strict=True)}
        return Routed(
            chosen_route(chances, self.threshold if threshold is None else threshold), chances
        )


def write_router(folder: Path, weights: RouterWeights, *, looks: bool = False) -> None:
    """Write a router's weights into its folder, and the names of the features they apply to."""
    arrays = {
        "surface": weights.surface,
        "meaning": weights.meaning,
        "words": weights.words,
        "bias": weights.bias,
    }
    dimension = weights.meaning.shape[1] // 2
    write_arrays(folder, FILES, arrays, feature_names(looks=looks), dimension)


def _read_weights(folder: Path, dimension: int, *, looks: bool, says: bool) -> RouterWeights:
    """Read the weights; `says`: those of words among them, which the first routers did not have."""
    count, names = len(ROUTES), feature_names(looks=looks)
    shapes = {
        "surface": (count, len(names)),
        "meaning": (count, 2 * dimension),
        "bias": (count,),
        **({"words": (count, WORDS)} if says else {}),
    }
    found = read_arrays(folder, FILES, names, dimension, shapes)
    blank = {"words": np.zeros((count, WORDS))}
    return RouterWeights(**(blank | {name: found[name] for name in shapes}))


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
            looks = router_looks(card)
            says = "word_share" in card.settings
            weights = _read_weights(path, encoder.dimension, looks=looks, says=says)
            drafts = card.settings.get("drafts", True) is not False
            threshold = card.threshold or 0.0
            _loaded[key] = Router(encoder, weights, threshold, drafts=drafts, looks=looks)
        return _loaded[key]
