"""Multi-hop QA with paragraphs: HotpotQA, 2WikiMultihopQA, MuSiQue.

Sources: Yang et al. 2018 (distractor setting), Ho et al. 2020, Trivedi et al. 2022.
"""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.documents import Document

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only


def _read_hotpot(row: Row) -> Iterator[Question]:
    facts: dict[str, list[int]] = {}
    for title, sentence in _pairs(row, "supporting_facts"):
        facts.setdefault(str(title), []).append(int(sentence))
    yield Question(
        id=row.id("_id", "id"),
        question=row.text("question"),
        answers=row.texts("answer"),
        passages=tuple(_paragraphs(row, facts)),
        about=only(row.fields, "type", "level", "evidences"),
    )


def _pairs(row: Row, name: str) -> Iterator[tuple[object, int]]:
    for pair in row.value(name):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], int):
            raise row.fault(f"{name!r} must be a list of [title, sentence number]")
        yield pair[0], pair[1]


def _paragraphs(row: Row, facts: dict[str, list[int]]) -> Iterator[Document]:
    for pair in row.value("context"):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], list):
            raise row.fault("'context' must be a list of [title, sentences]")
        title, sentences = str(pair[0]), [str(one).strip() for one in pair[1]]
        text = " ".join(filter(None, sentences))
        if text:
            found = sorted(set(facts.get(title, ())))
            yield passage(text, title, gold=title in facts, gold_sentences=found)


def _read_musique(row: Row) -> Iterator[Question]:
    aliases = row.fields.get("answer_aliases") or ()
    paragraphs = row.items("paragraphs")
    yield Question(
        id=row.id("id"),
        question=row.text("question"),
        answers=tuple(dict.fromkeys([*row.texts("answer"), *map(str, aliases)])),
        passages=tuple(
            passage(
                one.text("paragraph_text"),
                str(one.fields.get("title") or ""),
                gold=bool(one.fields.get("is_supporting")),
            )
            for one in paragraphs
        ),
        answerable=bool(row.fields.get("answerable", True)),
        about={
            "hops": len(row.fields.get("question_decomposition") or ()),
            **only(row.fields, "question_decomposition"),
        },
    )


HOTPOTQA = Format(
    name="hotpotqa",
    summary="HotpotQA and 2WikiMultihopQA: paragraphs and supporting facts.",
    datasets=("hotpotqa", "2wiki"),
    expects="_id, question, answer, context ([title, sentences] pairs), supporting_facts",
    fits=has("question", "answer", "context", "supporting_facts"),
    read=_read_hotpot,
)
MUSIQUE = Format(
    name="musique",
    summary="MuSiQue: paragraphs and the question's decomposition.",
    datasets=("musique",),
    expects="id, question, answer, paragraphs (title, paragraph_text, is_supporting)",
    fits=has("question", "answer", "paragraphs", "question_decomposition"),
    read=_read_musique,
)
