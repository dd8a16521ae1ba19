"""Which sentences of the passages bear on a question."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragweave.tools.models.extractive import minilm
from ragweave.tools.models.extractive.question import Question
from ragweave.tools.models.extractive.words import terms
from ragweave.tools.tasks import TaskPassage
from ragweave.tools.text.sentences import split_sentences

_TITLE = 0.8
"""Weight of a question word that stands in the passage's title only."""
_LONGEST = 600
"""Most characters of a sentence that are read as one: spans are compared with each other."""
_AROUND = 0.35
"""Weight of a question word that stands elsewhere in the passage only."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """A sentence of a passage and its support for the question."""

    text: str
    title: str
    passage: int
    """Position of its passage, from 0."""
    position: int
    """Position of the sentence in its passage, from 0."""
    score: float
    """Support in [0, 1]: share of the question it covers, by IDF; mixed with MiniLM's cosine."""


def gather(
    question: Question, passages: Sequence[TaskPassage], *, use_minilm: bool
) -> list[Evidence]:
    """Return every sentence of `passages`, best support first; ties keep the passages' order.

    Args:
        question: The question, analysed.
        passages: Passages in retrieval order.
        use_minilm: Mix in MiniLM's cosine, half and half.
    """
    rows = [
        (index, position, sentence)
        for index, passage in enumerate(passages)
        for position, sentence in enumerate(_sentences(passage["text"]))
    ]
    bags = [frozenset(terms(sentence)) for _, _, sentence in rows]
    weights = _idf(question.terms, bags)
    titles = [frozenset(terms(passage["title"])) for passage in passages]
    bodies = [frozenset(terms(passage["text"])) for passage in passages]
    scores = [
        _coverage(weights, bag, titles[index], bodies[index])
        for (index, _, _), bag in zip(rows, bags, strict=True)
    ]
    if use_minilm and rows:
        near = minilm.cosines(
            question.text,
            [f"{passages[index]['title']}. {sentence}".lstrip(". ") for index, _, sentence in rows],
        )
        scores = [
            0.5 * score + 0.5 * max(0.0, cosine) for score, cosine in zip(scores, near, strict=True)
        ]
    found = [
        Evidence(sentence, passages[index]["title"], index, position, score)
        for (index, position, sentence), score in zip(rows, scores, strict=True)
    ]
    return sorted(found, key=lambda one: -one.score)


def _idf(wanted: frozenset[str], bags: Sequence[frozenset[str]]) -> dict[str, float]:
    """Return the inverse sentence frequency of each wanted stem (never 0)."""
    count = Counter(term for bag in bags for term in bag & wanted)
    return {term: math.log(1 + (len(bags) + 1) / (count[term] + 0.5)) for term in sorted(wanted)}


def _coverage(
    weights: dict[str, float], bag: frozenset[str], title: frozenset[str], body: frozenset[str]
) -> float:
    """Return the share of the question's weight that a sentence and its surroundings cover."""
    total = sum(weights.values())
    if not total:
        return 0.0
    got = 0.0
    for term, weight in weights.items():
        if term in bag:
            got += weight
        elif term in title:
            got += _TITLE * weight
        elif term in body:
            got += _AROUND * weight
    return got / total


@lru_cache(maxsize=4096)
def _sentences(text: str) -> tuple[str, ...]:
    return tuple(
        piece for sentence in split_sentences(text) for piece in _pieces(sentence.text) if piece
    )


def _pieces(sentence: str) -> Iterator[str]:
    """Cut what is too long for a sentence at white space, or in a word longer than that."""
    start = 0
    while len(sentence) - start > _LONGEST:
        blank = sentence.rfind(" ", start + _LONGEST // 2, start + _LONGEST)
        end = start + _LONGEST if blank < 0 else blank
        yield sentence[start:end].strip()
        start = end
    yield sentence[start:].strip()
