"""`Question`, the record that every data set is read into, and `Format`, which declares how.

A format is one value, declared in its own file, in this package and in others alike:

    FORMAT = Format(name="riddles", summary="…", expects="riddle, solution",
                    fits=has("riddle", "solution"), read=_read)

A package names it as an entry point of the group `ragweave.datasets`. Its questions are then
opened by `riddles:FILE`, or by the file's path alone, where the first row shows the format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.datasets.rows import Row, Rows, rows_of
from ragweave.state import AnswerType
from ragweave.state.passages import content_id, with_id
from ragweave.tools.listed import listed

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
    """Gold answers, each correct by itself; empty where the question cannot be answered."""
    scoring: Scoring = "short"
    answer_type: AnswerType = "short"
    passages: tuple[Document, ...] = ()
    """Gold passages and distractors in file order: those with a true `metadata["gold"]` are gold,
    and `metadata["gold_sentences"]` holds the indices of supporting sentences."""
    answer_sets: tuple[tuple[str, ...], ...] = ()
    """Short answers to cover, each with its aliases (`coverage`)."""
    answerable: bool = True
    """False where the question has no answer, and to say so is correct (SQuAD 2.0)."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the file: hop type, level, popularity, decomposition, …"""

    def __post_init__(self) -> None:
        """Take a text given for several answers as the only one."""
        object.__setattr__(self, "answers", tuple(listed(self.answers)))

    @property
    def gold(self) -> tuple[Document, ...]:
        """The gold passages."""
        return tuple(doc for doc in self.passages if doc.metadata.get("gold"))


COLLECTION = "collection"
"""`metadata["collection"]` of documents that judgements name: of two of one collection the ids alone
say whether they are the same."""
STUB = "stub"
"""`metadata["stub"]` of gold passages whose texts a data set does not hold: their ids are all."""


def passage(text: str, title: str = "", *, gold: bool = False, **about: Any) -> Document:
    """Return a passage with a content id, its title and whether it is gold."""
    metadata = {"title": title, "gold": gold, **about}
    return Document(page_content=text, metadata=metadata, id=content_id(text, title))


def each_once(passages: Iterable[Document]) -> tuple[Document, ...]:
    """Return passages without those whose id an earlier one has; of two, one that is gold stays."""
    found: dict[str | None, Document] = {}
    for doc in map(with_id, passages):
        if doc.id not in found or _is_better(doc, found[doc.id]):
            found[doc.id] = doc
    return tuple(found.values())


def _is_better(doc: Document, other: Document) -> bool:
    return bool(doc.metadata.get("gold")) and not other.metadata.get("gold")


_QUOTED = re.compile(r'"((?:[^"]|"")*+)"')


def unquoted(title: str) -> str:
    """Return a title without the pair of quotes around all of it, as CSV has them.

    DPR's Wikipedia sets them around titles of several words; quotes within a title stay.
    """
    found = _QUOTED.fullmatch(title)
    return found[1].replace('""', '"') if found else title


@dataclass(frozen=True, kw_only=True)
class Format:
    """A published file format."""

    name: str
    summary: str = ""
    """One line for listings."""
    datasets: tuple[str, ...] = ()
    """The data sets published in it, each a name before the colon of `name:path`; empty: its own
    name."""
    expects: str
    """The fields of its rows, as error messages describe them."""
    fits: Callable[[Mapping[str, Any]], bool]
    """Whether a row, such as the file's first, is of this format."""
    read: Callable[[Row], Iterator[Question]]
    """The questions of a row; one, but for formats that nest them."""
    rows: Callable[[Path], Rows] = rows_of
    """The rows of a path."""
    corpus: Callable[[Path], Iterable[Document]] | None = None
    """The passages of a data set that keeps them in a file of their own; None: the questions'."""
    sniffed: bool = True
    """Whether it is tried for a file whose data set is not named."""
    splits: Callable[[Mapping[str, Any]], Sequence[str]] | None = None
    """The splits that a file holds, by its first record, where one may hold several."""
    of_split: Callable[[str], Format] | None = None
    """Returns the format of one split of such a file (`?split=train`); UsageError: there is none."""
    settle: Callable[[Rows], Format] | None = None
    """Returns the exact format of some rows, where the first row alone does not settle it."""

    @property
    def names(self) -> tuple[str, ...]:
        """The data sets published in it."""
        return self.datasets or (self.name,)


def has(*names: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a test for rows that have all these fields."""
    return lambda fields: all(name in fields for name in names)
