"""Linear components: logistic regressions that read a question and its draft answer.

Ours, from no paper. One regression reads the twelve features, one MiniLM's vectors of the question and of the question
with the draft's first sentence, one the hashed words; their logits are added. A judge has one such sum ("known", in
place of SlimPLM's fine-tuned judge), a router one for each route.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.retrieval.embedding import named_embeddings
from ragweave.tools.trained.card import Card
from ragweave.tools.trained.features import HashedWords, draft_features, first_sentence, hashed_words

Array = NDArray[np.float64]
_WEIGHTS = "linear.safetensors"


@dataclass(frozen=True)
class Rows:
    """What is read of n pairs of question and draft."""

    features: Array
    """(n, f)"""
    vectors: Array
    """(n, 2d)"""
    words: Sequence[HashedWords]

    def at(self, chosen: NDArray[np.intp]) -> Rows:
        """Return the rows of these numbers."""
        return Rows(self.features[chosen], self.vectors[chosen], [self.words[one] for one in chosen])


def read_rows(pairs: Sequence[tuple[str, str]], encoder: str) -> Rows:
    """Read pairs of question and draft, which may be empty, with an embedding model: `minilm`, a folder or a hub name."""
    features = [draft_features(*pair) for pair in pairs]
    texts = [
        text for asked, said in pairs for text in (asked.strip(), f"{asked.strip()} {first_sentence(said)}".strip())
    ]
    vectors = np.asarray(named_embeddings(encoder).embed_documents(texts), np.float64).reshape(len(pairs), -1)
    return Rows(np.asarray(features, np.float64), vectors, [hashed_words(*pair) for pair in pairs])


@dataclass(frozen=True)
class Linear:
    """The weights of c outputs."""

    features: Array
    """(c, f)"""
    vectors: Array
    """(c, 2d)"""
    words: Array
    """(c, `WORDS`)"""
    bias: Array
    """(c,)"""

    def probabilities(self, rows: Rows) -> Array:
        """Return the probability of each output, (n, c)."""
        logits = rows.features @ self.features.T + rows.vectors @ self.vectors.T + self.bias
        for row, said in zip(logits, rows.words, strict=True):
            row += self.words[:, said.columns] @ said.values
        chances: Array = 1 / (1 + np.exp(-np.clip(logits, -500, 500)))
        return chances


def write_linear(folder: Path, weights: Linear) -> None:
    """Write weights."""
    from safetensors.numpy import save_file

    save_file(vars(weights), folder / _WEIGHTS)


def read_linear(folder: Path) -> Linear:
    """Read weights."""
    from safetensors.numpy import load_file

    return Linear(**load_file(folder / _WEIGHTS))


class LinearScorer:
    """A linear judge or router."""

    def __init__(self, folder: Path, card: Card) -> None:
        """Read its weights."""
        self._weights, self._encoder = read_linear(folder), card.base

    def chances(self, question: str, draft: str) -> list[float]:
        """Return the probability that a draft is known, or that each route's answer is right."""
        found: list[float] = self._weights.probabilities(read_rows([(question, draft)], self._encoder))[0].tolist()
        return found
