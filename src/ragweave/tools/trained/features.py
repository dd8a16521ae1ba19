"""What a linear judge or router reads of a question and a draft answer, as numbers.

Twelve plain features; and the words, hashed into columns (feature hashing, Weinberger et al. 2009), so that a component
holds no vocabulary. None sees a right answer. Counts are log(1 + n).

Source: the groups of arXiv 2505.04253 (question type, complexity, popularity, knowledgability), made without a language
model.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

WORDS = 1 << 15
"""Columns of hashed words."""

FEATURES = (
    *("question.words", "question.names", "question.compares"),
    *("answer.words", "answer.digit"),
    *("reasoning.words", "reasoning.new", "reasoning.distinct", "reasoning.capitals", "reasoning.digits"),
    *("reasoning.hedges", "reasoning.holds_answer"),
)
"""Names of `draft_features`."""

_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_CONCLUSION = re.compile(r"\bso,? the (?:final )?answer is:?\s*", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])[\"')]?\s+|\n+")
_COMPARES = re.compile(r"\b(?:both|same|or)\b", re.IGNORECASE)
_HEDGE = re.compile(
    r"\b(?:unknown|not (?:known|available|specified|mentioned|provided|clear|possible|sure)|none|n/a|cannot"
    r"|no information|unclear|there is no)\b",
    re.IGNORECASE,
)
_COMMON = frozenset(
    re.findall(
        r"\w+",
        "a an the of in on at to for and or by with from is was were are be been did do does has have had as that this it "
        "its his her their he she they there which who what when where how why not no but also these those than then one "
        "into about after before during over first name most many much",
    )
)
"""Words that say little about what a text is about."""


class Draft(NamedTuple):
    """A draft in its two parts."""

    answer: str
    """The short answer behind "So the answer is", else the first sentence."""
    reasoning: str
    """What comes before the answer, else the whole draft."""


def read_draft(draft: str) -> Draft:
    """Split a draft into its answer and the reasoning before it."""
    text = draft.strip().replace("’", "'")
    found = list(_CONCLUSION.finditer(text))
    answer, reasoning = (text[found[-1].end() :], text[: found[-1].start()]) if found else (first_sentence(text), text)
    return Draft(answer.strip(" \t\n.,;:!?\"'"), reasoning.strip())


def first_sentence(draft: str) -> str:
    """Return a draft's first sentence."""
    return _SENTENCE.split(draft.strip(), maxsplit=1)[0]


def draft_features(question: str, draft: str) -> list[float]:
    """Return the features of a question and a model's answer without retrieval, in the order of `FEATURES`."""
    asked, said = _WORD.findall(question.replace("’", "'")), read_draft(draft)
    reasoned, answered = _WORD.findall(said.reasoning), _WORD.findall(said.answer)
    known = {one.lower() for one in asked} | _COMMON
    length = max(len(reasoned), 1)
    return [
        math.log1p(len(asked)),
        math.log1p(sum(one[0].isupper() for one in asked[1:])),
        float(_COMPARES.search(question) is not None),
        math.log1p(len(answered)),
        float(any(one.isdigit() for one in said.answer)),
        math.log1p(len(reasoned)),
        sum(one.lower() not in known for one in reasoned) / length,
        len({one.lower() for one in reasoned}) / length,
        sum(one[0].isupper() for one in reasoned) / length,
        math.log1p(sum(one.isdigit() for one in said.reasoning)),
        float(_HEDGE.search(draft) is not None),
        float(bool(said.answer) and said.answer.lower() in said.reasoning.lower()),
    ]


class HashedWords(NamedTuple):
    """The columns of a text's words, and the value of each."""

    columns: NDArray[np.intp]
    values: NDArray[np.float64]


def hashed_words(question: str, draft: str) -> HashedWords:
    """Hash a question's words and pairs of words, and a draft's words; either text's columns have length 1 together."""
    asked, said = (_WORD.findall(text.lower().replace("’", "'")) for text in (question, draft))
    blocks = [_columns("q", [*asked, *map(" ".join, pairwise(asked))]), _columns("d", said)]
    values = [np.full(len(one), 1 / math.sqrt(max(len(one), 1))) for one in blocks]
    return HashedWords(np.concatenate(blocks), np.concatenate(values))


def _columns(mark: str, words: Iterable[str]) -> NDArray[np.intp]:
    found = {zlib.crc32(f"{mark} {one}".encode("utf-8", "surrogatepass")) % WORDS for one in words}
    return np.asarray(sorted(found), dtype=np.intp)
