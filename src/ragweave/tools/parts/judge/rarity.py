"""How rare the words are: BERT's vocabulary runs from frequent to rare, so an id is a rank.

What is rarely written about is less likely to be known. With an encoder of another vocabulary the
numbers say less, and the weights that are learnt for them will be small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ragweave.tools.parts.judge.words import asked_names, first_sentence, telling, words

Pieces = Callable[[str], Sequence[int]]
"""Gives the ids of a word's pieces, without special tokens."""

_PARTS = ("question", "question_names", "first_new", "draft")
_MEASURES = ("rank", "rarest", "pieces")

NAMES = tuple(f"rarity.{part}.{measure}" for part in _PARTS for measure in _MEASURES)
"""Names of `rarity`: mean and greatest log-rank of the words, and pieces a word."""

_FIRST_WORD = 1996
"""The id of "the" in BERT's uncased vocabulary; marks and letters stand before it."""
_NO_WORD = 8.0
"""Log-rank that stands for no word at all: that of a word in the middle."""


def rarity(question: str, draft: str, pieces: Pieces) -> list[float]:
    """Return how rare the words of question and draft are, in the order of `NAMES`."""
    asked = words(question)
    named = [word for name in asked_names(question) for word in words(name)]
    parts = (
        telling(asked),
        telling(named),
        telling(words(first_sentence(draft)), asked),
        dict.fromkeys(telling(words(draft))),
    )
    return [value for part in parts for value in _rare(part, pieces)]


def _rare(found: Iterable[str], pieces: Pieces) -> tuple[float, float, float]:
    split = [ids for ids in map(pieces, found) if ids]
    if not split:
        return _NO_WORD, _NO_WORD, 1.0
    ranks = [math.log(max(1, max(ids) - _FIRST_WORD + 1)) for ids in split]
    return sum(ranks) / len(ranks), max(ranks), sum(map(len, split)) / len(split)
