"""`Question`, which every data set yields, and `Format`, the declaration of a data set's form.

A package lists its format as an entry point of the group `ragweave.datasets`:

    FORMAT = Format("quiz", "Pub quizzes.", read=lambda row: [Question(id=row.text("nr"), …)])
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.datasets.rows import Row, either
from ragweave.state import AnswerType
from ragweave.state.passages import content_id

Kind = Literal["short", "yes_no", "parts", "long", "retrieval"]
"""How a question is scored: by a short answer; Yes or No; several short answers that one text must give (ASQA); a long
answer; or the passages alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and what its data set says about it."""

    id: str
    """The data set's; "": a hash of the question's text takes its place."""
    question: str
    query: str = ""
    """What is searched for in the question's place, such as a claim without the words that ask about it; "": the
    question."""
    answers: tuple[str, ...] = ()
    """Right answers, the usual one first; each is right by itself. Empty: the question has none."""
    is_known: bool = True
    """Whether it is known what is right; if not, `answers` is empty too, and only a judge can score an answer."""
    parts: tuple[tuple[str, ...], ...] = ()
    """The names of each answer, if a text must give several answers."""
    kind: Kind = "short"
    passages: tuple[Document, ...] = ()
    """Passages that come with the question."""
    gold: Mapping[str, float] = field(default_factory=dict)
    """Relevance of the passages by id: 1, or a grade if the data set has grades."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Other fields; `label` holds the labels of a claim, `selected` the sentences that annotators chose."""
    at: int = 0
    """Its number in the file, from 0."""

    @property
    def answer_type(self) -> AnswerType:
        """The type of answer that a graph must give."""
        if self.kind == "yes_no":
            return "yes_no"
        return "long" if self.kind in ("long", "parts") else "short"

    def searched(self, text: str) -> str:
        """Return the text of a search, with the query in the place of the question."""
        return text.replace(self.question, self.query) if self.query else text

    @property
    def hashes(self) -> dict[str, str]:
        """A hash of what is asked and searched for, of what is right, and of the passages that come with the question."""
        passages = [(doc.id, doc.page_content, doc.metadata) for doc in self.passages]
        parts = {
            "question": (self.kind, self.question, self.query),
            "golds": (self.answers if self.is_known else None, self.parts, self.gold, self.about),
            "passages": passages,
        }
        return {name: _hash(part) for name, part in parts.items()}

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The short answers, each with its aliases; empty for long answers and passages alone."""
        own = [self.answers] if self.answers and self.kind in ("short", "yes_no") else []
        return list(self.parts) or own


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Format:
    """The form of the files of one or more data sets."""

    name: str
    """The name before the colon of `NAME:FILE`."""
    summary: str
    read: Callable[[Row], Iterable[Question]]
    """Yields the questions of a row."""
    fields: tuple[tuple[str, ...], ...] = ()
    """Sets of fields; a file given without a name has this form if its first row has all fields of one set."""
    read_folder: Callable[[Path], Iterator[Question]] | None = None
    """Yields the questions of a folder, instead of `read`."""
    corpus: Callable[[Path], Iterator[Document]] | None = None
    """Yields the documents of a folder, which are searched."""

    def fits(self, row: Row) -> bool:
        """Return whether a row looks like this form."""
        return any(row.has(*names) for names in self.fields)


def passage(text: str, title: str = "", name: str = "") -> Document:
    """Return a passage; its id is its name in the collection, or a hash of title and text."""
    title = title.strip()
    return Document(id=name or content_id(text, title), page_content=text, metadata={"title": title} if title else {})


def unique(passages: Iterable[Document]) -> tuple[Document, ...]:
    """Return the passages without repeated ids."""
    return tuple({str(doc.id): doc for doc in passages}.values())


def marked(passages: Iterable[Document]) -> dict[str, float]:
    """Return passages as a question's gold passages: a grade of 1 by id."""
    return {str(doc.id): 1.0 for doc in passages}


def id_of(row: Row, *names: str) -> str:
    """Return a row's id; "" if it has none."""
    value = row.get(*names, "id", "_id", "qid", "question_id", "example_id", "Id")
    return "" if value is None else str(value)


def about(row: Row, *names: str) -> dict[str, Any]:
    """Return the fields of these names that a row has."""
    return {name: row.fields[name] for name in names if name in row.fields}


def answers_of(row: Row, *names: str) -> tuple[str, ...]:
    """Return the right answers in any published shape; () if there are none.

    The shapes are a text, a number, a list of these, any of them as JSON, SQuAD's `{"text": […]}` and TriviaQA's
    `{"value": …, "aliases": […]}`. The fields `aliases` and `answer_aliases` are added.
    """
    texts = [*_texts(row, row.json(*names)), *_texts(row, row.json("aliases", "answer_aliases"))]
    return tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))


def answered(row: Row, *names: str) -> tuple[str, ...]:
    """Return the right answers.

    Raises:
        UsageError: There are none.
    """
    if answers := answers_of(row, *names):
        return answers
    raise row.error(f"no right answer: {either(names)} is missing or empty")


def _texts(row: Row, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [value.get(name) for name in _NAMED]
    if isinstance(value, list | tuple):
        for item in value:
            yield from _texts(row, item)
    elif isinstance(value, bool):
        yield "Yes" if value else "No"
    elif isinstance(value, str | int | float):
        yield str(int(value) if isinstance(value, float) and value.is_integer() else value)
    elif value is not None:
        raise row.error(f"{value!r} is not an answer: give a text, a number or a list of them")


_NAMED = ("text", "value", "Value", "string", "answer", "aliases", "Aliases")
"""Fields that hold an answer's names in an object."""
_TEXT = ("text", "paragraph_text", "contents", "content", "passage_text", "psg_text", "page_content")
_MARKS = ("isgold", "is_gold", "is_supporting", "is_selected", "hasanswer", "has_answer")


def passages_of(row: Row, *names: str) -> tuple[tuple[Document, ...], dict[str, float]]:
    """Return a list's passages, and the grades of the gold ones by id: a hash, as many files count anew for each row."""
    passages: list[Document] = []
    gold: dict[str, float] = {}
    for number, item in enumerate(_flat(_listed(row, *names)), 1):
        if not isinstance(item, Mapping | str):
            raise row.error(f"{names[0]!r}: passage {number} must be a text or an object")
        part = Row(item if isinstance(item, Mapping) else {"text": item}, f"{row.where}, passage {number}", number)
        text, title = part.text(*_TEXT), str(part.get("title", "wikipedia_title") or "")
        if not part.has("title") and ("contents" in part.fields or isinstance(item, str)):
            title, text = _split_title(text)
        doc = passage(text, title.strip('"'))
        passages.append(doc)
        if part.get(*_MARKS):
            gold[str(doc.id)] = 1.0
    return unique(passages), gold


def _listed(row: Row, *names: str) -> list[Any]:
    value = row.json(*names)
    if isinstance(value, Mapping) and any(isinstance(column, list) for column in value.values()):
        return [part.fields for part in row.rows(*names)]
    return value if isinstance(value, list) else [] if value is None else [value]


def _flat(listed: Iterable[Any]) -> Iterator[Any]:
    for item in listed:
        if isinstance(item, list):
            yield from _flat(item)
        elif item not in ("", None):
            yield item


def _split_title(text: str) -> tuple[str, str]:
    """Split a quoted title from its text, as in FlashRAG's and SKR's passages."""
    first, line, rest = text.partition("\n")
    quoted = first.startswith('"') and first.endswith('"') and len(first) > 2
    return (first.strip('"'), rest) if quoted and line and rest.strip() else ("", text)
