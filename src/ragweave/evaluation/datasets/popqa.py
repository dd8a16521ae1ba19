"""PopQA: questions on long-tail entities, with popularity (Mallen et al. 2023); TSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only


def _read(row: Row) -> Iterator[Question]:
    answers = row.value("possible_answers")
    if isinstance(answers, str):
        try:
            answers = json.loads(answers)
        except ValueError as fault:
            raise row.fault("'possible_answers' must be a JSON list of texts") from fault
    paragraphs = row.items("paragraphs") if row.fields.get("paragraphs") else []
    yield Question(
        id=row.id("id"),
        question=row.text("question"),
        answers=Row({"possible_answers": answers}, row.where, row.number).texts("possible_answers"),
        passages=tuple(
            passage(
                one.text("text"),
                str(one.fields.get("title") or ""),
                gold=bool(one.fields.get("is_supporting")),
            )
            for one in paragraphs
        ),
        about=only(row.fields, "subj", "prop", "s_pop", "o_pop"),
    )


POPQA = Format(
    name="popqa",
    summary="PopQA: long-tail entities with their popularity.",
    datasets=("popqa",),
    expects="id, question, possible_answers (a JSON list), s_pop",
    fits=has("question", "possible_answers"),
    read=_read,
)
