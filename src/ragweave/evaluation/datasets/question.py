"""The record that every data set is read into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.state import AnswerType
from ragweave.state.passages import content_id

Scoring = Literal["short", "accuracy", "coverage", "long", "retrieval"]
"""How answers are scored.

* `short`: exact match and F1 against any alias (SQuAD rule).
* `accuracy`: the same word, such as Yes or No.
* `coverage`: how many of several short answers the text covers (ASQA).
* `long`: ROUGE and unigram F1 against reference texts.
* `retrieval`: no answer is known; only the passages are scored.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question with what its data set knows about it."""

    id: str
    """Unique within the data set; the row's number where the file gives none."""
    question: str
    answers: tuple[str, ...]
    """Right answers, each alone right; empty where the question cannot be answered."""
    scoring: Scoring = "short"
    answer_type: AnswerType = "short"
    passages: tuple[Document, ...] = ()
    """Gold passages and distractors in file order; `metadata["gold"]` tells them apart, and
    `metadata["gold_sentences"]` holds the positions of supporting sentences."""
    answer_sets: tuple[tuple[str, ...], ...] = ()
    """Short answers to cover, each with its aliases (`coverage`)."""
    answerable: bool = True
    """False where the right answer is that there is none (SQuAD 2.0)."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else the file says: hop type, level, popularity, decomposition, …"""

    @property
    def gold(self) -> tuple[Document, ...]:
        """The gold passages."""
        return tuple(doc for doc in self.passages if doc.metadata["gold"])


def passage(text: str, title: str = "", *, gold: bool = False, **about: Any) -> Document:
    """Return a passage with a content id, its title and whether it is gold."""
    metadata = {"title": title, "gold": gold, **about}
    return Document(page_content=text, metadata=metadata, id=content_id(text, title))
