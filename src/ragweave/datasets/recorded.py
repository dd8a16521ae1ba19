"""Recorded answers: what one large model replied to a question by each of several routes.

A row holds the question, its gold answers, and for each route (`no_retrieval`, `one_round`,
`ircot`) the model's `answer` and what it `said`, its reasoning first where that was kept. The
routes' answers are read as they were recorded; none is ever made up. "Adaptive Retrieval Without
Self-Knowledge?" (arXiv 2501.12835) published such replies of Llama-3.1-8B-Instruct.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from ragweave.datasets.question import Format, Question, has
from ragweave.datasets.rows import Row, rows_of
from ragweave.errors import UsageError
from ragweave.state.records import ROUTES, RouteName
from ragweave.tools.files import parse_json
from ragweave.tools.text.normalize import normalize_answer

_FIELDS: Mapping[RouteName, str] = MappingProxyType(
    {"none": "no_retrieval", "one": "one_round", "many": "ircot"}
)


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """What a model replied to one question by one route."""

    answer: str
    """Its short answer; empty where it gave none."""
    reasoning: str = ""
    """What it wrote before the answer; empty where that was not kept."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One question, and a model's replies by route."""

    id: str
    question: str
    answers: tuple[str, ...]
    """Gold answers. What judges and routers read never includes them."""
    replies: Mapping[RouteName, RecordedReply]

    def right(self) -> dict[RouteName, bool]:
        """Return by route whether the answer contains a gold answer."""
        return {
            name: contains_answer(one.answer, self.answers) for name, one in self.replies.items()
        }


def contains_answer(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer contains any gold answer, both normalised.

    Source: the In-Accuracy of arXiv 2501.12835 (after Mallen et al. 2023), on whole words.
    """
    said = f" {normalize_answer(answer)} "
    return any(f" {gold} " in said for one in golds if (gold := normalize_answer(one)))


def ideal_route(right: Mapping[RouteName, bool], allowed: Iterable[RouteName]) -> RouteName:
    """Return the cheapest of the allowed routes that was right; the cheapest where none was."""
    listed = [name for name in ROUTES if name in frozenset(allowed)]
    return next((name for name in listed if right[name]), listed[0])


def recording_of(row: Row) -> Recording:
    """Read a row.

    Raises:
        UsageError: A field is missing or of the wrong type.
    """
    return Recording(
        id=row.id("id"),
        question=row.text("question"),
        answers=row.texts("answers"),
        replies={name: _reply(row, field) for name, field in _FIELDS.items()},
    )


def _reply(row: Row, field: str) -> RecordedReply:
    value = row.value(field)
    if not isinstance(value, Mapping) or not isinstance(value.get("answer"), str):
        raise row.error(f"{field!r} must be an object with 'answer' (a text) and 'said' (a list)")
    said = value.get("said") or ()
    if not isinstance(said, list | tuple) or not all(isinstance(one, str) for one in said):
        raise row.error(f"'said' of {field!r} must be a list of texts")
    reasoning = _unquoted(said[0]) if len(said) > 1 else ""
    return RecordedReply(_unescaped(value["answer"]), reasoning)


_ESCAPE = re.compile(r'\\u[0-9a-fA-F]{4}|\\["/]')


def _unescaped(text: str) -> str:
    """Return an answer that was cut out of a JSON string, its escapes kept, as it was said."""
    plain = _ESCAPE.sub(lambda found: str(json.loads(f'"{found.group()}"')), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


def _unquoted(text: str) -> str:
    """Return a text that may have been recorded as a JSON string."""
    try:
        value = parse_json(text)
    except ValueError:
        return text.strip()
    return value.strip() if isinstance(value, str) else text.strip()


def read_recordings(path: Path) -> list[Recording]:
    """Return all recordings of a file (JSON lines, `.gz` too), in order.

    Raises:
        UsageError: The file is missing or empty, or a row is bad.
    """
    if not path.is_file():
        raise UsageError(f"{path}: there is no such file")
    found = [recording_of(row) for row in rows_of(path)]
    if not found:
        raise UsageError(f"{path}: has no rows")
    return found


def _read(row: Row) -> Iterator[Question]:
    one = recording_of(row)
    yield Question(id=one.id, question=one.question, answers=one.answers)


RECORDED = Format(
    name="recorded",
    summary="A model's recorded replies by route: none, one or many rounds of retrieval.",
    expects="id, question, answers, no_retrieval, one_round, ircot (each with answer and said)",
    fits=has("question", "answers", *_FIELDS.values()),
    read=_read,
)
