"""ROUGE-1, ROUGE-2 and ROUGE-L.

Source: Lin 2004. The numbers are those of the `rouge-score` package without a stemmer, which the
tests hold them against: tokens are runs of a-z and 0-9; with several references the best counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ragweave.datasets.question import Question
from ragweave.evaluation.metrics.metric import Compute, Metric, given_answer

_OTHER = re.compile(r"[^a-z0-9]+")


def rouge_n(text: str, references: Iterable[str], n: int) -> float:
    """Return the best n-gram F1 of `text` with any reference, 0 to 1."""
    given = _grams(_tokens(text), n)
    return max((_gram_f1(given, _grams(_tokens(one), n)) for one in references), default=0.0)


def rouge_l(text: str, references: Iterable[str]) -> float:
    """Return the best F1 of the longest common subsequence with any reference, 0 to 1."""
    given = _tokens(text)
    return max((_sequence_f1(given, _tokens(one)) for one in references), default=0.0)


def common_subsequence(one: list[str], other: list[str]) -> int:
    """Return the length of the longest common subsequence.

    Source: Hyyrö 2004 (bit-parallel LCS): one whole-number operation a token of `other`.
    """
    places: dict[str, int] = {}
    for index, token in enumerate(one):
        places[token] = places.get(token, 0) | 1 << index
    full = (1 << len(one)) - 1
    state = full
    for token in other:
        matched = state & places.get(token, 0)
        state = ((state + matched) | (state - matched)) & full
    return len(one) - state.bit_count()


def _tokens(text: str) -> list[str]:
    return _OTHER.sub(" ", text.lower()).split()


def _grams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[index : index + n]) for index in range(len(tokens) - n + 1))


def _gram_f1(given: Counter[tuple[str, ...]], reference: Counter[tuple[str, ...]]) -> float:
    return _f1((given & reference).total(), given.total(), reference.total())


def _sequence_f1(given: list[str], reference: list[str]) -> float:
    return _f1(common_subsequence(given, reference), len(given), len(reference))


def _f1(common: int, given: int, reference: int) -> float:
    return 2 * common / (given + reference) if common else 0.0


def _of(rouge: Callable[[str, Iterable[str]], float]) -> Compute:
    def compute(question: Question, state: Mapping[str, Any]) -> float | None:
        if question.scoring not in ("long", "coverage") or not question.answers:
            return None
        return rouge(given_answer(state), question.answers)

    return compute


ROUGE = (
    Metric(
        name="rouge_1",
        label="ROUGE-1",
        summary="Words shared with the best reference.",
        compute=_of(lambda text, references: rouge_n(text, references, 1)),
        source="Lin 2004",
    ),
    Metric(
        name="rouge_2",
        label="ROUGE-2",
        summary="Pairs of words shared with the best reference.",
        compute=_of(lambda text, references: rouge_n(text, references, 2)),
        source="Lin 2004",
    ),
    Metric(
        name="rouge_l",
        label="ROUGE-L",
        summary="The longest common subsequence with the best reference.",
        compute=_of(rouge_l),
        primary=("long",),
        source="Lin 2004",
    ),
)
