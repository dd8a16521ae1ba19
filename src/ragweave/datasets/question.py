"""`Question`, what every data set becomes, and `Format`, the declaration of a data set's form.

A package lists its format as an entry point of the group `ragweave.datasets`:

    FORMAT = Format("quiz", "Pub quizzes.", read=lambda row: [Question(id=row.text("nr"), …)])
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.datasets.rows import Row, either
from ragweave.state import AnswerType
from ragweave.state.passages import content_id

Kind = Literal["short", "yes_no", "parts", "long", "retrieval"]
"""How a question is scored: a short answer; Yes or No; several short answers that one text must give
(ASQA); a long answer; or the passages alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One question with what its data set knows about it."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    """Right answers, the usual one first; each is right by itself. Empty: it has none."""
    parts: tuple[tuple[str, ...], ...] = ()
    """Of a question with several answers, the names of each."""
    kind: Kind = "short"
    passages: tuple[Document, ...] = ()
    """Passages that come with the question."""
    gold: Mapping[str, float] = field(default_factory=dict)
    """How relevant passages are, by id: 1, or a grade if the data set has grades."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """What else the row says; as `label` the labels of a claim, as `selected` the sentences that annotators chose."""
    at: int = 0
    """Its number in the file, from 0."""

    @property
    def answer_type(self) -> AnswerType:
        """The type of answer that a graph is asked for."""
        if self.kind == "yes_no":
            return "yes_no"
        return "long" if self.kind in ("long", "parts") else "short"

    @property
    def names(self) -> list[tuple[str, ...]]:
        """The short answers, each with its aliases; empty for long answers and passages alone."""
        own = [self.answers] if self.answers and self.kind in ("short", "yes_no") else []
        return list(self.parts) or own


@dataclass(frozen=True)
class Format:
    """The form of a data set's files, or of several's."""

    name: str
    """What stands before the colon of `NAME:FILE`."""
    summary: str
    read: Callable[[Row], Iterable[Question]]
    """Makes the questions of a row."""
    fields: tuple[tuple[str, ...], ...] = ()
    """Fields that tell the form of a file that was given without a name; any of these sets will do."""
    read_folder: Callable[[Path], Iterator[Question]] | None = None
    """Makes the questions of a folder, in place of `read`."""
    corpus: Callable[[Path], Iterator[Document]] | None = None
    """Yields the documents of a folder that are to be searched."""

    def fits(self, row: Row) -> bool:
        """Say whether a row looks like one of this form."""
        return any(row.has(*names) for names in self.fields)


def passage(text: str, title: str = "", name: str = "") -> Document:
    """Return a passage; its id is the data set's, or made of its title and text."""
    title = title.strip()
    return Document(id=name or content_id(text, title), page_content=text, metadata={"title": title} if title else {})


def unique(passages: Iterable[Document]) -> tuple[Document, ...]:
    """Return passages, each id once."""
    return tuple({str(doc.id): doc for doc in passages}.values())


def marked(passages: Iterable[Document]) -> dict[str, float]:
    """Return passages as the gold of a question."""
    return {str(doc.id): 1.0 for doc in passages}


def id_of(row: Row, *names: str) -> str:
    """Return a row's id; its number, from 0, if it has none."""
    found = row.get(*names, "id", "_id", "qid", "question_id", "example_id", "Id")
    return str(row.number - 1 if found is None else found)


def about(row: Row, *names: str) -> dict[str, Any]:
    """Return those of these fields that a row has."""
    return {name: row.fields[name] for name in names if name in row.fields}


def answers_of(row: Row, *names: str) -> tuple[str, ...]:
    """Return right answers from any shape that they are published in; () if there are none.

    A text, a number, a list of these or the same as JSON, SQuAD's `{"text": […]}`, TriviaQA's
    `{"value": …, "aliases": […]}`; and what stands beside them as `aliases` or `answer_aliases`.
    """
    found = [*_texts(row, row.json(*names)), *_texts(row, row.json("aliases", "answer_aliases"))]
    return tuple(dict.fromkeys(one.strip() for one in found if one.strip()))


def answered(row: Row, *names: str) -> tuple[str, ...]:
    """Return right answers, of which there is at least one.

    Raises:
        UsageError: There is none.
    """
    if found := answers_of(row, *names):
        return found
    raise row.error(f"no right answer: {either(names)} is missing or empty")


def _texts(row: Row, value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        value = [value.get(name) for name in _NAMED]
    if isinstance(value, list | tuple):
        for one in value:
            yield from _texts(row, one)
    elif isinstance(value, bool):
        yield "Yes" if value else "No"
    elif isinstance(value, str | int | float):
        yield f"{value:g}" if isinstance(value, float) else str(value)
    elif value is not None:
        raise row.error(f"{value!r} is no answer: a text, a number or a list of them is")


_NAMED = ("text", "value", "Value", "string", "answer", "aliases", "Aliases")
"""What the names of an answer are called in an object."""
_TEXT = ("text", "paragraph_text", "contents", "content", "passage_text", "psg_text", "page_content")
_MARKS = ("isgold", "is_gold", "is_supporting", "is_selected", "hasanswer", "has_answer")


def passages_of(row: Row, *names: str) -> tuple[tuple[Document, ...], dict[str, float]]:
    """Return the passages of a list of texts or objects, and which of them are gold."""
    found: list[Document] = []
    gold: dict[str, float] = {}
    for number, one in enumerate(_flat(_listed(row, *names)), 1):
        if not isinstance(one, Mapping | str):
            raise row.error(f"{names[0]!r}: passage {number} must be a text or an object")
        part = Row(one if isinstance(one, Mapping) else {"text": one}, f"{row.where}, passage {number}", number)
        text, title = part.text(*_TEXT), str(part.get("title", "wikipedia_title") or "")
        if not part.has("title") and ("contents" in part.fields or isinstance(one, str)):
            title, text = _split_title(text)
        doc = passage(text, title.strip('"'), str(part.get("id", "_id", "docid") or ""))
        found.append(doc)
        if part.get(*_MARKS):
            gold[str(doc.id)] = 1.0
    return unique(found), gold


def _listed(row: Row, *names: str) -> list[Any]:
    found = row.json(*names)
    if isinstance(found, Mapping) and any(isinstance(one, list) for one in found.values()):
        rows = {name: one for name, one in found.items() if isinstance(one, list)}
        return [one.fields for one in Row({"passages": rows}, row.where, row.number).rows("passages")]
    return found if isinstance(found, list) else [] if found is None else [found]


def _flat(listed: Iterable[Any]) -> Iterator[Any]:
    for one in listed:
        if isinstance(one, list):
            yield from _flat(one)
        elif one not in ("", None):
            yield one


def _split_title(text: str) -> tuple[str, str]:
    """Split a quoted title from its text, the form of FlashRAG's and SKR's passages."""
    first, line, rest = text.partition("\n")
    quoted = first.startswith('"') and first.endswith('"') and len(first) > 2
    return (first.strip('"'), rest) if quoted and line and rest.strip() else ("", text)
