"""Recorded answers: what one large model replied to a question by each of several routes.

A row holds the question, its gold answers, and by route (`no_retrieval`, `one_round`, `ircot`) the model's
`answer` and what it `said`, its reasoning first if that was recorded. "Adaptive Retrieval Without
Self-Knowledge?" (arXiv 2501.12835) published such replies of Llama-3.1-8B-Instruct. They train a router.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ragweave.datasets.question import answered, id_of
from ragweave.datasets.rows import Row, read_rows
from ragweave.state.records import RouteName
from ragweave.tools.text.words import normalize_answer

_FIELDS: Mapping[RouteName, str] = {"none": "no_retrieval", "one": "one_round", "many": "ircot"}


@dataclass(frozen=True, slots=True)
class RecordedReply:
    """What a model replied to one question by one route."""

    answer: str
    """Its short answer; "" if it gave none."""
    reasoning: str = ""
    """What it wrote before the answer; "" if that was not recorded."""


@dataclass(frozen=True, slots=True)
class Recording:
    """One question, and a model's replies by route."""

    id: str
    question: str
    answers: tuple[str, ...]
    """Right answers; a judge or a router never reads them."""
    replies: Mapping[RouteName, RecordedReply]

    def right(self) -> dict[RouteName, bool]:
        """Return by route whether the answer contains a right one."""
        return {name: contains_answer(one.answer, self.answers) for name, one in self.replies.items()}


def contains_answer(answer: str, golds: Iterable[str]) -> bool:
    """Return whether an answer contains any right one, in whole words (arXiv 2501.12835, In-Accuracy)."""
    said = f" {normalize_answer(answer)} "
    return any(f" {gold} " in said for one in golds if (gold := normalize_answer(one)))


def recording_of(row: Row) -> Recording:
    """Read a row.

    Raises:
        UsageError: A field is missing or of the wrong type.
    """
    return Recording(
        id=id_of(row),
        question=row.text("question"),
        answers=answered(row, "answers"),
        replies={name: _reply(row, field) for name, field in _FIELDS.items()},
    )


def read_recordings(path: Path) -> Iterator[Recording]:
    """Yield the recordings of a file (JSON lines, `.gz` too), in order."""
    yield from map(recording_of, read_rows(path))


def _reply(row: Row, field: str) -> RecordedReply:
    value = row.need(field)
    if not isinstance(value, Mapping) or not isinstance(value.get("answer"), str):
        raise row.error(f"{field!r} must be an object with 'answer' (a text) and 'said' (a list of texts)")
    said = list(value.get("said") or ())
    return RecordedReply(_unescaped(value["answer"]), _unquoted(str(said[0])) if len(said) > 1 else "")


_ESCAPE = re.compile(r'\\u[0-9a-fA-F]{4}|\\["/]')


def _unescaped(text: str) -> str:
    """Return an answer that was cut out of a JSON string, escapes included."""
    plain = _ESCAPE.sub(lambda found: str(json.loads(f'"{found.group()}"')), text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()


def _unquoted(text: str) -> str:
    """Return a text that may have been recorded as a JSON string."""
    with suppress(ValueError):
        text = str(json.loads(text))
    return text.strip()
