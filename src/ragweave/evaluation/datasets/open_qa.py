"""Open-domain QA: NQ-open lines, and the DPR / FiD form with passages.

Sources: Lee et al. 2019 (NQ-open: `question`, `answer`); Karpukhin et al. 2020 (DPR: `answers`,
`positive_ctxs`, `hard_negative_ctxs`); Izacard & Grave 2021 (FiD: `answers`, `ctxs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.documents import Document

from ragweave.evaluation.datasets.format import Format
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only

_LISTS = ("positive_ctxs", "ctxs", "negative_ctxs", "hard_negative_ctxs")
_GOLD = ("isgold", "is_gold", "hasanswer", "has_answer")


def _fits_nq_open(fields: Mapping[str, Any]) -> bool:
    plain = "question" in fields and isinstance(fields.get("answer", fields.get("answers")), list)
    return plain and not _fits_dpr(fields)


def _fits_dpr(fields: Mapping[str, Any]) -> bool:
    return {"question", "answers"} <= fields.keys() and bool({*_LISTS, "ctx"} & fields.keys())


def _read_nq_open(row: Row) -> Iterator[Question]:
    yield Question(
        id=row.id("id", "example_id"),
        question=row.text("question"),
        answers=row.texts("answer", "answers"),
    )


def _read_dpr(row: Row) -> Iterator[Question]:
    yield Question(
        id=row.id("id", "question_id"),
        question=row.text("question"),
        answers=row.texts("answers"),
        passages=tuple(_passages(row)),
        about=only(row.fields, "dataset", "target"),
    )


def _passages(row: Row) -> Iterator[Document]:
    if "ctx" in row.fields:
        one = Row(row.value("ctx"), row.where, 1)
        yield _passage(one, gold=bool(one.fields.get("has_answer")))
    for name in _LISTS:
        if row.fields.get(name):
            marked = any(key in one.fields for one in row.items(name) for key in _GOLD)
            for one in row.items(name):
                gold = _marked(one.fields) if marked else name == "positive_ctxs"
                yield _passage(one, gold=gold)


def _marked(fields: Mapping[str, Any]) -> bool:
    """Say whether a passage is gold by the strictest mark that it carries."""
    marks = [fields[key] for key in _GOLD if key in fields]
    return bool(marks and marks[0])


def _passage(row: Row, *, gold: bool) -> Document:
    return passage(
        row.text("text"),
        str(row.fields.get("title") or "").strip().strip('"'),
        gold=gold,
        **only(row.fields, "score"),
    )


NQ_OPEN = Format(
    name="nq_open",
    summary="Natural Questions, open: question and answers alone.",
    datasets=("nq", "triviaqa", "webquestions"),
    expects="question, answer (a list of texts)",
    fits=_fits_nq_open,
    read=_read_nq_open,
)
DPR = Format(
    name="dpr",
    summary="The retriever outputs of DPR, Contriever and ALCE.",
    datasets=("nq", "triviaqa", "webquestions", "squad", "dpr"),
    expects="question, answers, and ctxs (each with title and text) or positive_ctxs",
    fits=_fits_dpr,
    read=_read_dpr,
)
