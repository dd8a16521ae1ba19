"""The shape of a draft: how long it is, what it puts forward, what it takes from the question."""

from __future__ import annotations

import math
import re
from collections import Counter

from ragweave.tools.parts.judge.values import flag, log_count, share
from ragweave.tools.parts.judge.words import (
    DATE,
    NUMBER,
    YEAR,
    asked_names,
    first_sentence,
    is_new,
    names,
    sentences,
    telling,
    words,
)

_NAMES = (
    *("words", "sentences", "items", "first_words", "short", "cut"),
    *("years", "numbers", "dates", "number_share", "first_date", "first_number"),
    *("yes", "no", "first_new"),
    *("question_share", "first_question_share", "names_kept"),
    *("first_candidates", "candidates", "candidate_share", "repeated", "repeated_last"),
    *("distinct_share", "quotes", "brackets"),
)

NAMES = tuple(f"draft.{name}" for name in _NAMES)
"""Names of `draft_shape`, in order."""

_ITEM = re.compile(r"^[^\S\n]*+(?:\d+[.)]|[*•-])\s", re.MULTILINE)
_ENDED = re.compile(r"[.!?)\"']$")
_SHORT = 40


def draft_shape(question: str, draft: str) -> list[float]:
    """Return the shape of a draft, in the order of `NAMES`."""
    first, said, asked = first_sentence(draft), words(draft), set(words(question))
    return [
        *_length(draft, first, said),
        *_figures(question, draft, first, len(said)),
        flag(draft.lower().startswith("yes")),
        flag(draft.lower().startswith("no")),
        log_count(telling(words(first), asked)),
        *_overlap(question, draft, first),
        *_naming(asked, draft, first),
        share(set(said), said),
        math.log1p(draft.count('"')),
        math.log1p(draft.count("(")),
    ]


def _length(draft: str, first: str, said: list[str]) -> list[float]:
    return [
        log_count(said),
        log_count(sentences(draft)),
        log_count(_ITEM.findall(draft)),
        log_count(words(first)),
        flag(len(said) < _SHORT),
        flag(not _ENDED.search(draft)),
    ]


def _figures(question: str, draft: str, first: str, length: int) -> list[float]:
    numbers = NUMBER.findall(draft)
    return [
        log_count(set(YEAR.findall(draft)) - set(YEAR.findall(question))),
        log_count(set(numbers)),
        log_count(DATE.findall(draft)),
        len(numbers) / max(length, 1),
        flag(DATE.search(first)),
        flag(set(NUMBER.findall(first)) - set(NUMBER.findall(question))),
    ]


def _overlap(question: str, draft: str, first: str) -> list[float]:
    asked, named = set(telling(words(question))), asked_names(question)
    lowered = draft.lower()
    return [
        share(asked & set(words(draft)), asked),
        share(asked & set(words(first)), asked),
        share([name for name in named if name.lower() in lowered], named),
    ]


def _naming(asked: set[str], draft: str, first: str) -> list[float]:
    """Return how many names the draft brings, and how often it says those it brings first."""
    said = words(draft)
    counts = Counter(said)
    said = [name for name in names(first) if is_new(name, asked)]
    named = [name for name in names(draft) if is_new(name, asked)]
    again = [min(counts[word] for word in telling(words(name), asked)) for name in said]
    return [
        log_count(said),
        log_count(set(named)),
        share(named, said),
        math.log1p(max(again, default=0)),
        math.log1p(again[-1] if again else 0),
    ]
