"""Open-domain question answering: short answers, with retrieved passages or without.

* NQ-open (Lee et al. 2019): `question`, `answer`.
* DPR (Karpukhin et al. 2020): `answers`, `positive_ctxs`, `hard_negative_ctxs`; FiD (Izacard &
  Grave 2021): `answers`, `ctxs`.
* TriviaQA in its authors' own format (Joshi et al. 2017): one object, `Data` with `Question` and
  `Answer`.
* WebQuestions (Berant et al. 2013): `utterance`, `targetValue` as a Lisp list; or `qText`,
  `answers`.
* PopQA (Mallen et al. 2023): questions about long-tail entities with their popularity; TSV or JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.documents import Document

from ragweave.datasets.question import Format, Question, has, passage, unquoted
from ragweave.datasets.rows import NO_GOLD, Row, pick
from ragweave.tools.files import parse_json

_LISTS = ("positive_ctxs", "ctxs", "negative_ctxs", "hard_negative_ctxs")
_GOLD = ("isgold", "is_gold", "hasanswer", "has_answer")


def _fits_nq_open(fields: Mapping[str, Any]) -> bool:
    plain = "question" in fields and isinstance(fields.get("answer", fields.get("answers")), list)
    return plain and not _fits_dpr(fields)


def _fits_dpr(fields: Mapping[str, Any]) -> bool:
    one = isinstance(fields.get("ctx", ""), Mapping | None)
    passages = one or bool({*_LISTS} & fields.keys())
    return {"question", "answers"} <= fields.keys() and passages


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
        about=pick(row.fields, "dataset", "target"),
    )


def _passages(row: Row) -> Iterator[Document]:
    if row.fields.get("ctx"):
        one = row.item("ctx")
        yield _passage(one, gold=bool(one.fields.get("has_answer")))
    for name in _LISTS:
        found = row.items(name, optional=True)
        marked = any(key in one.fields for one in found for key in _GOLD)
        for one in found:
            gold = _marked(one.fields) if marked else name == "positive_ctxs"
            yield _passage(one, gold=gold)


def _marked(fields: Mapping[str, Any]) -> bool:
    """Return whether a passage is gold by the strictest mark that it carries."""
    marks = [fields[key] for key in _GOLD if key in fields]
    return bool(marks and marks[0])


def _passage(row: Row, *, gold: bool) -> Document:
    return passage(
        row.text("text"),
        unquoted(str(row.fields.get("title") or "").strip()),
        gold=gold,
        **pick(row.fields, "score"),
    )


NQ_OPEN = Format(
    name="nq_open",
    summary="Natural Questions, open: question and answers alone.",
    datasets=("nq", "triviaqa", "webquestions"),
    expects="question, answer (a list of strings)",
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


_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*+)"|"([^"]*+)"|([^\s()]+))\)')
"""In quotes with escapes; with a backslash that escapes nothing; without quotes."""
_ESCAPED = re.compile(r"\\(.)")


def _read_trivia(row: Row) -> Iterator[Question]:
    for one in row.items("Data"):
        answer = one.item("Answer")
        texts = (answer.text("Value"), *answer.texts("Aliases", optional=True))
        yield Question(
            id=one.id("QuestionId"),
            question=one.text("Question"),
            answers=tuple(dict.fromkeys(texts)),
        )


def _read_web(row: Row) -> Iterator[Question]:
    if "qText" in row.fields:
        answers = row.texts("answers")
    else:
        found = _DESCRIPTION.findall(row.text("targetValue"))
        named = (_ESCAPED.sub(r"\1", quoted) or raw or bare for quoted, raw, bare in found)
        answers = tuple(dict.fromkeys(filter(str.strip, named)))
        if not answers:
            raise row.error(f"{NO_GOLD}: 'targetValue' holds no description")
    yield Question(id=row.id("qId"), question=row.text("utterance", "qText"), answers=answers)


TRIVIAQA = Format(
    name="triviaqa",
    summary="TriviaQA: answers with aliases.",
    datasets=("triviaqa",),
    expects="one object with Data, a list of Question, QuestionId and Answer",
    fits=has("Data"),
    read=_read_trivia,
)
WEBQUESTIONS = Format(
    name="webquestions",
    summary="WebQuestions, in either format.",
    datasets=("webquestions",),
    expects="utterance and targetValue, or qText and answers",
    fits=lambda fields: (
        {"utterance", "targetValue"} <= fields.keys() or {"qText", "answers"} <= fields.keys()
    ),
    read=_read_web,
)


def _read_popqa(row: Row) -> Iterator[Question]:
    answers = row.value("possible_answers")
    if isinstance(answers, str):
        try:
            answers = parse_json(answers)
        except ValueError as error:
            raise row.error("'possible_answers' must be a JSON list of strings") from error
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
            for one in row.items("paragraphs", optional=True)
        ),
        about=pick(row.fields, "subj", "prop", "s_pop", "o_pop"),
    )


POPQA = Format(
    name="popqa",
    summary="PopQA: long-tail entities with their popularity.",
    datasets=("popqa",),
    expects="id, question, possible_answers (a JSON list), s_pop",
    fits=has("question", "possible_answers"),
    read=_read_popqa,
)
