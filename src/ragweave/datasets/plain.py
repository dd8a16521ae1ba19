"""Questions of one's own: plain JSON lines, a JSON array, CSV or TSV.

Fields that the spec does not name are `question`, `answers` (or `answer`), `id`, `passages` and
`answer_type`. A cell of a CSV holds several answers as `one|two`, or as a list of texts.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, get_args

from langchain_core.documents import Document

from ragweave.datasets.question import Format, Question, passage
from ragweave.datasets.rows import Row, Rows
from ragweave.errors import UsageError
from ragweave.state import AnswerType
from ragweave.tools.files import parse_json

PLAIN = ("jsonl", "json", "csv", "tsv")
"""The names of plain rows in a spec."""

FIELDS = ("question", "answers", "id", "passages", "answer_type", "separator")
"""What the spec of plain rows may name. `separator` splits one text into answers; without it a
cell of a CSV is a list or split at `|`, and a JSON string is one answer."""

_OPTIONAL = ("id", "passages", "answer_type")
"""Fields that a row may lack."""

SAMPLED = 1000
"""Rows that show which fields a file has: one of them must have each that the spec names."""


def plain(name: str, names: Mapping[str, str]) -> Format:
    """Return the format of plain rows whose fields are called `names`.

    Raises:
        UsageError: `names` has an unknown key, or an empty separator.
    """
    for key in names:
        if key not in FIELDS:
            raise UsageError(
                f"{name}: unknown field name {key!r}; choose one of: {', '.join(FIELDS)}"
            )
    if names.get("separator") == "":
        raise UsageError(f"{name}: separator is empty; name what stands between answers, such as ;")
    question = names.get("question", "question")
    answers = (names["answers"],) if "answers" in names else ("answers", "answer")
    form = Format(
        name=name,
        expects=f"{question}, {' or '.join(answers)}",
        fits=lambda fields: question in fields and any(one in fields for one in answers),
        read=partial(_read, names=names, question=question, answers=answers),
    )
    named = {key: names[key] for key in _OPTIONAL if key in names}
    return replace(form, settle=partial(_settled, form, named)) if named else form


def _settled(form: Format, named: Mapping[str, str], rows: Rows) -> Format:
    """Return the format, once each named field has been seen: a misspelt one would be in no row."""
    missing, row = set(named.values()), None
    for row in islice(rows, SAMPLED):
        missing -= row.fields.keys()
        if not missing:
            break
    if row is None or not missing:
        return form
    key = next(key for key, field in named.items() if field in missing)
    raise row.error(
        f"no row up to here has the field {named[key]!r} ({key}=… names it); "
        f"found: {', '.join(map(str, row.fields))}"
    )


def _read(
    row: Row, *, names: Mapping[str, str], question: str, answers: tuple[str, ...]
) -> Iterator[Question]:
    kind: AnswerType = row.fields.get(names.get("answer_type", "answer_type")) or "short"
    if kind not in get_args(AnswerType):
        raise row.error(
            f"the answer type must be one of {', '.join(get_args(AnswerType))}, not {kind!r}"
        )
    scoring: dict[str, Any] = {"short": "short", "long": "long", "yes_no": "accuracy"}
    yield Question(
        id=row.id(names.get("id", "id")),
        question=row.text(question),
        answers=_answers(row, answers, names.get("separator"), kind),
        scoring=scoring[kind],
        answer_type=kind,
        passages=tuple(_passages(row, names.get("passages", "passages"))),
    )


def _answers(
    row: Row, names: tuple[str, ...], separator: str | None, kind: AnswerType
) -> tuple[str, ...]:
    name, value = row.field(*names), row.value(*names)
    if isinstance(value, str):
        in_cell = row.cells and not separator
        value = _in_cell(row, value) if in_cell else _split(value, separator)
    if kind == "yes_no":
        value = [_verdict(one) for one in value] if isinstance(value, list) else _verdict(value)
    return Row({name: value}, row.where, row.number).texts(name)


def _split(text: str, separator: str | None) -> list[str]:
    return text.split(separator) if separator else [text]


_TEXT = r"""(?:"[^"]*+"|'[^']*+')"""
_NUMPY = re.compile(rf"\[\s*+{_TEXT}(?:\s++{_TEXT})++\s*+\]")


def _in_cell(row: Row, cell: str) -> list[Any]:
    """Return the answers of a cell: a list of texts, or what stands between bars.

    Raises:
        UsageError: It is a list as numpy prints one: its items would run together.
    """
    text = cell.strip()
    if _NUMPY.fullmatch(text):
        raise row.error(
            f'{text[:60]!r} looks like a list but is none: write ["one", "two"] or one|two'
        )
    return (_listed(text) if text.startswith("[") else None) or cell.split("|")


def _listed(text: str) -> list[Any] | None:
    """Return a list of texts, as JSON or as Python (and pandas) writes it; None for all else.

    Brackets alone make no list: `[0, 1]` is an interval, and the digits of `[1.50]` are the answer.
    """
    try:
        value = parse_json(text)
    except ValueError:
        value = _as_python_wrote(text)
    kinds = set(map(type, value or ()))
    return value if str in kinds <= {str, type(None)} else None


def _as_python_wrote(text: str) -> list[Any] | None:
    broken = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)
    with warnings.catch_warnings(), suppress(*broken):
        warnings.simplefilter("ignore")  # about escapes, which no list is written with
        value = ast.literal_eval(text)
        return value if isinstance(value, list) and repr(value) == text else None
    return None


def _verdict(value: object) -> object:
    return {"true": "Yes", "false": "No"}.get(str(value).strip().lower(), value)


def _passages(row: Row, name: str) -> Iterator[Document]:
    value = row.fields.get(name) or ()
    for one in value if isinstance(value, list | tuple) else (None,):
        about = {"text": one} if isinstance(one, str) else one
        if not isinstance(about, Mapping) or not isinstance(about.get("text"), str):
            raise row.error(
                f"{name!r} must be a list of strings, or of objects with title, text and gold"
            )
        if about["text"].strip():
            title = str(about.get("title") or "")
            yield passage(about["text"], title, gold=bool(about.get("gold")))
