"""From a question and its draft to the two rows of numbers that a linear judge weighs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ragweave.tools.parts.judge.encoder import Encoder
from ragweave.tools.parts.judge.features import NAMES, features
from ragweave.tools.parts.judge.reference import Array, Reference
from ragweave.tools.parts.judge.similarity import SIMILARITIES, Vectors, similarities
from ragweave.tools.parts.judge.words import candidates, first_sentence, sentences

COLUMNS: tuple[str, ...] = (*NAMES, *SIMILARITIES)
"""Names of the surface columns, in order."""

_SENTENCES, _CANDIDATES = 12, 40


class Read(NamedTuple):
    """Rows of numbers, one a pair."""

    surface: Array
    """(n, len(COLUMNS)): what the words and the cosines show."""
    meaning: Array
    """(n, 2d): the vectors of the question, and of the question with the first sentence."""


class Texts(NamedTuple):
    """The texts of a pair that the encoder reads."""

    question: str
    draft: str
    opened: str
    sentences: list[str]
    first: list[str]
    every: list[str]

    def all(self) -> Iterator[str]:
        """Yield each text."""
        yield from (self.question, self.draft, self.opened)
        yield from (*self.sentences, *self.first, *self.every)


def texts_of(question: str, draft: str) -> Texts:
    """Return what the encoder reads of a pair: at most 12 sentences and 40 candidates of a draft."""
    asked, said = question.strip(), draft.strip()
    first = first_sentence(said)
    return Texts(
        asked,
        said,
        f"{asked} {first}".strip(),
        sentences(said)[:_SENTENCES],
        candidates(asked, first)[:_CANDIDATES],
        candidates(asked, said)[:_CANDIDATES],
    )


def read_pairs(pairs: Sequence[tuple[str, str]], encoder: Encoder, reference: Reference) -> Read:
    """Read pairs of question and draft."""
    texts = [texts_of(*pair) for pair in pairs]
    known = encoder.vectors([text for one in texts for text in one.all()])
    found = [_vectors(one, known, encoder.dimension) for one in texts]
    surface = [
        [
            *features(one.question, one.draft, encoder.pieces),
            *similarities(vectors, reference),
        ]
        for one, vectors in zip(texts, found, strict=True)
    ]
    meaning = [np.concatenate([one.question, one.opened]) for one in found]
    return Read(
        np.asarray(surface, dtype=np.float64).reshape(len(texts), len(COLUMNS)),
        np.asarray(meaning, dtype=np.float64).reshape(len(texts), 2 * encoder.dimension),
    )


def _vectors(texts: Texts, known: dict[str, Array], size: int) -> Vectors:
    def rows(some: Sequence[str]) -> Array:
        return np.asarray([known[one] for one in some]).reshape(len(some), size)

    return Vectors(
        known[texts.question],
        known[texts.draft],
        known[texts.opened],
        rows(texts.sentences),
        rows(texts.first),
        rows(texts.every),
    )
