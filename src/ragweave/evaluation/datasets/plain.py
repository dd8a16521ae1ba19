"""Plain JSON lines, JSON arrays and CSV with named fields.

`jsonl:my.jsonl?question=q&answers=gold&id=key&passages=docs` names the fields; without names they
are `question`, `answers` (or `answer`), `id` and `passages`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, get_args

from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.evaluation.datasets.format import Format
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row
from ragweave.state import AnswerType

FIELDS = ("question", "answers", "id", "passages", "answer_type", "separator")
"""What the spec may name. `separator` splits the answers of a CSV cell (default `|`)."""


def plain(name: str, names: Mapping[str, str]) -> Format:
    """Return the format of plain rows whose fields are called `names`.

    Raises:
        UsageError: `names` names something unknown.
    """
    for key in names:
        if key not in FIELDS:
            raise UsageError(f"{name}: unknown field name {key!r}; choose of: {', '.join(FIELDS)}")
    question = names.get("question", "question")
    answers = (names["answers"],) if "answers" in names else ("answers", "answer")
    return Format(
        name=name,
        expects=f"{question}, {' or '.join(answers)}",
        fits=lambda fields: question in fields and any(one in fields for one in answers),
        read=partial(_read, names=names, question=question, answers=answers),
    )


def _read(
    row: Row, *, names: Mapping[str, str], question: str, answers: tuple[str, ...]
) -> Iterator[Question]:
    kind: AnswerType = row.fields.get(names.get("answer_type", "answer_type")) or "short"
    if kind not in get_args(AnswerType):
        raise row.fault(
            f"the answer type must be one of {', '.join(get_args(AnswerType))}, not {kind!r}"
        )
    scoring: dict[str, Any] = {"short": "short", "long": "long", "yes_no": "accuracy"}
    yield Question(
        id=row.id(names.get("id", "id")),
        question=row.text(question),
        answers=_answers(row, answers, names.get("separator", "|")),
        scoring=scoring[kind],
        answer_type=kind,
        passages=tuple(_passages(row, names.get("passages", "passages"))),
    )


def _answers(row: Row, names: tuple[str, ...], separator: str) -> tuple[str, ...]:
    value = row.value(*names)
    if isinstance(value, str):
        value = value.split(separator)
    return Row({names[0]: value}, row.where, row.number).texts(names[0])


def _passages(row: Row, name: str) -> Iterator[Document]:
    value = row.fields.get(name) or ()
    if not isinstance(value, list | tuple):
        raise row.fault(
            f"{name!r} must be a list of texts, or of objects with title, text and gold"
        )
    for one in value:
        if isinstance(one, str):
            yield passage(one)
        elif isinstance(one, Mapping) and isinstance(one.get("text"), str):
            yield passage(one["text"], str(one.get("title") or ""), gold=bool(one.get("gold")))
        else:
            raise row.fault(
                f"{name!r} must be a list of texts, or of objects with title, text and gold"
            )
