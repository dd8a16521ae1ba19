"""Cosines between question, draft and candidates: what the encoder itself remembers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ragweave.tools.parts.judge.reference import Array, Reference

SIMILARITIES: tuple[str, ...] = (
    "question_first",
    "question_draft",
    "candidate_max",
    "candidate_mean",
    "any_candidate_max",
    "any_candidate_mean",
    "candidate_above_reference",
    "candidate_specific",
    "coherence",
    "question_sentences_mean",
)
"""Names of `similarities`, in order."""

_ONE_SENTENCE = 0.6
"""Coherence of a draft of one sentence: about that of any draft."""


class Vectors(NamedTuple):
    """Vectors of unit length of a question and its draft, one a row."""

    question: Array
    """(d,)"""
    draft: Array
    """(d,)"""
    opened: Array
    """(d,): of the question followed by the draft's first sentence."""
    sentences: Array
    """(s, d): of the draft's sentences; may be none."""
    first: Array
    """(c, d): of the candidates in the first sentence; may be none."""
    every: Array
    """(e, d): of the candidates in the whole draft; may be none."""


def similarities(vectors: Vectors, reference: Reference) -> list[float]:
    """Return the cosines, in the order of `SIMILARITIES`; without candidates theirs are 0."""
    asked = vectors.question
    said = vectors.sentences if len(vectors.sentences) else np.zeros((1, len(asked)))
    near, far = _cosines(vectors.first, asked), _cosines(vectors.every, asked)
    return [
        float(said[0] @ asked),
        float(vectors.draft @ asked),
        float(near.max()),
        float(near.mean()),
        float(far.max()),
        float(far.mean()),
        reference.above(asked, float(near.max())),
        reference.specific(vectors.first, asked),
        _coherence(said),
        float((said @ asked).mean()),
    ]


def _cosines(vectors: Array, asked: Array) -> Array:
    return vectors @ asked if len(vectors) else np.zeros(1)


def _coherence(said: Array) -> float:
    """Return the mean cosine between two sentences."""
    count = len(said)
    if count < 2:
        return _ONE_SENTENCE
    return float(((said @ said.T).sum() - np.trace(said @ said.T)) / (count * (count - 1)))
