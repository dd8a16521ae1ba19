"""The words of a question and its draft, hashed: what a router reads beside features and vectors.

A question's words and pairs of words, and a draft's words, each marked with where it stands, fall
into one of `WORDS` columns (feature hashing, Weinberger et al. 2009). Nothing is kept but weights:
a part holds no vocabulary. How often a word is said does not count, and a long text weighs no more
than a short one: the columns of question and draft have length 1 each.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.trained.judge_features import words
from ragweave.trained.judge_reading import Array

WORDS = 1 << 15
"""Columns."""


class HashedWords(NamedTuple):
    """The columns that a row has, and its value in each; question and draft may share a column."""

    columns: NDArray[np.intp]
    values: Array


def hashed_words(question: str, draft: str) -> HashedWords:
    """Return the hashed words of a question and its draft.

    Args:
        question: The question.
        draft: The draft; "": none.
    """
    asked = words(question)
    pairs = (f"{one} {two}" for one, two in pairwise(asked))
    parts = [_columns("q", [*asked, *pairs]), _columns("d", words(draft))]
    lengths = [np.full(len(part), 1 / np.sqrt(max(len(part), 1))) for part in parts]
    return HashedWords(np.concatenate(parts), np.concatenate(lengths))


def _columns(mark: str, said: Iterable[str]) -> NDArray[np.intp]:
    found = {zlib.crc32(f"{mark} {one}".encode("utf-8", "surrogatepass")) % WORDS for one in said}
    return np.asarray(sorted(found), dtype=np.intp)
