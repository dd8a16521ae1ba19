"""StrategyQA: yes/no questions with the facts that decide them (Geva et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only


def _read(row: Row) -> Iterator[Question]:
    answer = row.value("answer")
    if not isinstance(answer, bool):
        raise row.fault(f"'answer' must be true or false, not {answer!r}")
    term = str(row.fields.get("term") or "")
    yield Question(
        id=row.id("qid"),
        question=row.text("question"),
        answers=("Yes" if answer else "No",),
        scoring="accuracy",
        answer_type="yes_no",
        passages=tuple(
            passage(str(fact).strip(), term, gold=True)
            for fact in row.fields.get("facts") or ()
            if str(fact).strip()
        ),
        about=only(row.fields, "decomposition", "description"),
    )


STRATEGYQA = Format(
    name="strategyqa",
    summary="StrategyQA: yes or no, with the decomposition.",
    datasets=("strategyqa",),
    expects="qid, question, answer (true or false), facts",
    fits=lambda fields: has("qid", "question")(fields) and isinstance(fields.get("answer"), bool),
    read=_read,
)
