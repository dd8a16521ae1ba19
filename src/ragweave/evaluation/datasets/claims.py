"""Fact verification: FEVER in its owners' form, and Fool Me Twice.

Sources: Thorne et al. 2018; Eisenschlos et al. 2021. A claim is asked as a yes/no question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from langchain_core.documents import Document

from ragweave.evaluation.datasets.format import Format, has
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only

CLAIM = "Is this claim true? {claim}"
"""How a claim is asked."""

VERDICTS: Mapping[str, str] = MappingProxyType(
    {"SUPPORTS": "Yes", "SUPPORTED": "Yes", "REFUTES": "No", "REFUTED": "No"}
)
"""Labels as answers."""

_OPEN = "NOT ENOUGH INFO"


def _read_fever(row: Row) -> Iterator[Question]:
    yield _claim(row, row.text("claim"), ())


def _read_fool_me_twice(row: Row) -> Iterator[Question]:
    yield _claim(row, row.text("text"), tuple(_evidence(row)))


def _claim(row: Row, claim: str, passages: tuple[Document, ...]) -> Question:
    label = row.text("label")
    if label not in VERDICTS and label != _OPEN:
        raise row.fault(f"'label' must be SUPPORTS, REFUTES or {_OPEN}, not {label!r}")
    return Question(
        id=row.id("id"),
        question=CLAIM.format(claim=claim),
        answers=(VERDICTS[label],) if label in VERDICTS else (),
        scoring="accuracy",
        answer_type="yes_no",
        answerable=label in VERDICTS,
        passages=passages,
        about=only(row.fields, "category", "label"),
    )


def _evidence(row: Row) -> Iterator[Document]:
    title = str(row.fields.get("wikipedia_page") or "")
    gold = {one.text("text"): one for one in row.items("gold_evidence")}
    for text, one in gold.items():
        yield passage(text, title, gold=True, **only(one.fields, "section_header"))
    for one in row.items("retrieved_evidence") if row.fields.get("retrieved_evidence") else ():
        if one.text("text") not in gold:
            yield passage(one.text("text"), title, **only(one.fields, "section_header"))


FEVER = Format(
    name="fever",
    summary="FEVER: claims to verify.",
    datasets=("fever",),
    expects="id, claim, label",
    fits=has("claim", "label"),
    read=_read_fever,
)
FOOL_ME_TWICE = Format(
    name="fool_me_twice",
    summary="Fool Me Twice: claims with evidence.",
    datasets=("fool_me_twice",),
    expects="id, text, label, gold_evidence, retrieved_evidence",
    fits=has("text", "label", "gold_evidence"),
    read=_read_fool_me_twice,
)
