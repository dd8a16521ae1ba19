"""ASQA: ambiguous questions, several short answers, long reference answers.

Source: Stelmakh et al. 2022. The owners' file is one object by split and id; the judge data of
SlimPLM (Tan et al. 2024) hold the same records line by line, and are read too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ragweave.evaluation.datasets.files import rows_of
from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, Rows, only

_SPLITS = ("dev", "test", "train")
_NO_CONTEXT = "No context provided"


def _rows(path: Any) -> Rows:
    for row in rows_of(path):
        split = next((row.fields[name] for name in _SPLITS if name in row.fields), None)
        if not isinstance(split, Mapping):
            yield row
            continue
        for number, (key, record) in enumerate(split.items(), start=1):
            where = f"{row.where}, {key}"
            if not isinstance(record, Mapping):
                raise row.fault(f"{key!r} must be an object")
            yield Row({"id": key, **record}, where, number)


def _read(row: Row) -> Iterator[Question]:
    pairs = row.items("qa_pairs")
    sets = tuple(one.texts("short_answers") for one in pairs)
    if not sets:
        raise row.fault("gold is missing: 'qa_pairs' is empty")
    notes = [str(one.get("long_answer") or "") for one in row.fields.get("annotations") or ()]
    yield Question(
        id=row.id("id", "sample_id"),
        question=row.text("ambiguous_question", "question"),
        answers=tuple(filter(str.strip, notes)),
        scoring="coverage",
        answer_type="long",
        answer_sets=sets,
        passages=tuple(
            passage(text, str(one.fields.get("wikipage") or ""), gold=True)
            for one in pairs
            if (text := str(one.fields.get("context") or "").strip()) and text != _NO_CONTEXT
        ),
        about=only(row.fields, "known"),
    )


def _fits(fields: Mapping[str, Any]) -> bool:
    if has("qa_pairs")(fields):
        return True
    splits = [fields[name] for name in _SPLITS if isinstance(fields.get(name), Mapping)]
    return any("qa_pairs" in one for split in splits for one in list(split.values())[:1])


ASQA = Format(
    name="asqa",
    summary="ASQA: long answers that cover several short ones.",
    datasets=("asqa",),
    expects="one object by split and id, or lines, with ambiguous_question and qa_pairs",
    fits=_fits,
    read=_read,
    rows=_rows,
)
