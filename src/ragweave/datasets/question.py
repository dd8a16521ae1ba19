"""The record that every data set is read into.

What a data set's format says about itself.

A format is declared by one value in its own file, ours and other people's alike:

    FORMAT = Format(name="riddles", summary="…", expects="riddle, solution",
                    fits=has("riddle", "solution"), read=_read)

A package names it as an entry point of the group `ragweave.datasets`; its questions are then
opened by `riddles:FILE`, or by the file alone, whose first row says what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.datasets.rows import Row, Rows, rows_of
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


@dataclass(frozen=True, kw_only=True)
class Format:
    """A published file format."""

    name: str
    summary: str = ""
    """What comes in it, in a line."""
    datasets: tuple[str, ...] = ()
    """The data sets that come in it, each a name before the colon of `name:path`; none: its own
    name."""
    expects: str
    """The fields that its rows have, for people."""
    fits: Callable[[Mapping[str, Any]], bool]
    """Whether a file's first row is of this format."""
    read: Callable[[Row], Iterator[Question]]
    """The questions of a row; one, but for formats that nest them."""
    rows: Callable[[Path], Rows] = rows_of
    """The rows of a path."""
    corpus: Callable[[Path], Iterable[Document]] | None = None
    """The passages of a path that keeps them apart from its questions; None: the questions'."""
    sniffed: bool = True
    """Whether a file without a name is tried for it."""

    settle: Callable[[Rows], Format] | None = None
    """The format that a look at the rows decides on, where the first row alone doesn't tell."""

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets that come in it."""
        return self.datasets or (self.name,)


def has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for rows that have all these fields."""
    return lambda fields: all(name in fields for name in names)
