"""Context filters: each scores the segments of passages, and those above a threshold stay.

Source: Wang et al. 2023 (FILCO), section 2.2. A filter that needs a model's weights (CXMI, a
trained one) is an object of the caller's with the one method of `ContextFilter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from langchain_core.documents import Document


@runtime_checkable
class ContextFilter(Protocol):
    """Says how much each segment of the passages helps."""

    def scores(self, question: str, segments: Sequence[Document], answers: Sequence[str]) -> Sequence[float]:
        """Return a score a segment; what is not above the option `threshold`, or 0, is dropped.

        Args:
            question: The question.
            segments: Sentences, or passages.
            answers: Right answers, where the input brought some: then this is FILCO's oracle.
        """
        ...


def lexical(question: str, segments: Sequence[Document], answers: Sequence[str]) -> list[float]:
    """Return the unigram F1 of each segment with the best of the answers, else with the question."""
    targets = [_words(one) for one in answers or [question]]
    return [max(_f1(_words(one.page_content), target) for target in targets) for one in segments]


def strinc(question: str, segments: Sequence[Document], answers: Sequence[str]) -> list[float]:
    """Return 1 for each segment that contains an answer; without answers the words shared."""
    if not answers:
        return lexical(question, segments, answers)
    texts = (one.page_content.lower() for one in segments)
    return [float(any(answer.lower() in text for answer in answers)) for text in texts]


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.lower())


def _f1(said: Sequence[str], target: Sequence[str]) -> float:
    same = sum(min(said.count(word), target.count(word)) for word in {*said})
    return 2 * same / (len(said) + len(target)) if same else 0.0


SCORES: Mapping[str, Callable[[str, Sequence[Document], Sequence[str]], Sequence[float]]] = {
    "lexical": lexical,
    "strinc": strinc,
    "full": lambda _question, segments, _answers: [1.0] * len(segments),
}
"""The filters by name."""
