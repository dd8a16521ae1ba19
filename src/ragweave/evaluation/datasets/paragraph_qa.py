"""Questions over one paragraph or a fixed list of passages: QED, and SKR's TempQuestions.

Sources: Lamm et al. 2021 (QED); Wang et al. 2023 (Self-Knowledge Guided Retrieval).
"""

from __future__ import annotations

from collections.abc import Iterator

from langchain_core.documents import Document

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row


def _read_qed(row: Row) -> Iterator[Question]:
    groups = row.value("original_nq_answers")
    texts = [str(part["string"]) for group in groups for part in group]
    marked = row.value("annotation").get("selected_sentence") or {}
    starts = list(row.value("sentence_starts"))
    start = marked.get("start")
    yield Question(
        id=row.id("example_id"),
        question=row.text("question_text"),
        answers=Row({"original_nq_answers": texts}, row.where, 1).texts("original_nq_answers"),
        passages=(
            passage(
                row.text("paragraph_text"),
                str(row.fields.get("title_text") or ""),
                gold=True,
                gold_sentences=[starts.index(start)] if start in starts else [],
            ),
        ),
    )


def _read_skr(row: Row) -> Iterator[Question]:
    yield Question(
        id=row.id("Id"),
        question=row.text("Question"),
        answers=row.texts("Gold answer"),
        passages=tuple(_titled(row, row.value("passages"))),
    )


def _titled(row: Row, value: object) -> Iterator[Document]:
    """Yield the passages of however nested a list; each is a quoted title, a line break, a text."""
    if isinstance(value, list):
        for one in value:
            yield from _titled(row, one)
    elif isinstance(value, str):
        title, _, text = value.partition("\n")
        yield passage((text or title).strip(), title.strip('"') if text else "")
    else:
        raise row.fault("'passages' must be texts")


QED = Format(
    name="qed",
    summary="QED: Natural Questions over one paragraph.",
    datasets=("qed",),
    expects="example_id, question_text, paragraph_text, sentence_starts, original_nq_answers",
    fits=has("question_text", "paragraph_text", "original_nq_answers"),
    read=_read_qed,
)
SKR = Format(
    name="skr",
    summary="The released questions of SKR, with passages.",
    datasets=("skr",),
    expects="Id, Question, Gold answer, passages",
    fits=has("Question", "Gold answer", "passages"),
    read=_read_skr,
)
