"""Fact verification: FEVER in its owners' form, and Fool Me Twice.

Sources: Thorne et al. 2018; Eisenschlos et al. 2021. A claim is asked as a yes/no question.

KILT: FEVER, Wizard of Wikipedia, ELI5, NQ, … in one form (Petroni et al. 2021).

A row holds `input` and `output`, a list of answers with the provenance of each. A data set is of one
kind, whatever a single row looks like: ELI5 and Wizard of Wikipedia are judged as texts also where
an answer is short.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.datasets.question import Format, Question, has, passage
from ragweave.datasets.rows import Row, Rows, only

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
        raise row.error(f"'label' must be SUPPORTS, REFUTES or {_OPEN}, not {label!r}")
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


_LONG = 12
"""Words from which on an answer is a text rather than a phrase."""

_LOOKED_AT = 1000
"""Rows that tell of which kind a file is that no data set's name tells."""

Kind = Literal["claims", "long", "short"]


def _read(row: Row, kind: Kind) -> Iterator[Question]:
    outputs = row.items("output")
    answers = _answers(outputs)
    if not answers:
        raise row.error("gold is missing: no 'output' has an 'answer'")
    shared: dict[str, Any] = {
        "id": row.id("id"),
        "passages": tuple(_passages(outputs)),
        "about": only(row.fields, "meta"),
    }
    text = row.text("input")
    if kind == "claims":
        yield Question(
            question=CLAIM.format(claim=text),
            answers=tuple(_verdict(row, answer) for answer in answers),
            scoring="accuracy",
            answer_type="yes_no",
            **shared,
        )
    elif kind == "long":
        yield Question(question=text, answers=answers, scoring="long", answer_type="long", **shared)
    else:
        yield Question(question=text, answers=answers, **shared)


def _answers(outputs: list[Row]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.text("answer") for one in outputs if one.fields.get("answer")))


def _verdict(row: Row, answer: str) -> str:
    if answer not in VERDICTS:
        raise row.error(f"'answer' must be SUPPORTS or REFUTES, not {answer!r}")
    return VERDICTS[answer]


def _kind_of(row: Row) -> Kind:
    """Return of what kind a row looks; only many rows together tell for sure."""
    answers = _answers(row.items("output"))
    if answers and all(answer in VERDICTS for answer in answers):
        return "claims"
    dialogue = "\n" in row.text("input")
    shortest = min((len(answer.split()) for answer in answers), default=0)
    return "long" if dialogue or shortest >= _LONG else "short"


def _settled(rows: Rows) -> Format:
    """Return the format of the kind that most of a file's first rows look like."""
    kinds = Counter(_kind_of(row) for row in islice(rows, _LOOKED_AT))
    return _OF_KIND[kinds.most_common(1)[0][0]]


def _passages(outputs: list[Row]) -> Iterator[Document]:
    """Yield the provenance that comes with its text; KILT's plain files give titles only."""
    seen: set[str] = set()
    for output in outputs:
        for source in output.fields.get("provenance") or ():
            text = str(source.get("text") or "").strip()
            if text and text not in seen:
                seen.add(text)
                yield passage(text, str(source.get("title") or ""), gold=True)


def _fits(fields: Mapping[str, Any]) -> bool:
    output = fields.get("output")
    return "input" in fields and isinstance(output, list) and "passages" not in fields


def _of_kind(kind: Kind, *datasets: str) -> Format:
    return Format(
        name=f"kilt_{kind}",
        summary=f"KILT's form of {', '.join(datasets)}.",
        datasets=datasets,
        expects="id, input, output (a list of objects with answer and provenance)",
        fits=_fits,
        read=partial(_read, kind=kind),
        sniffed=False,
    )


KILT_CLAIMS = _of_kind("claims", "fever")
KILT_LONG = _of_kind("long", "eli5", "wow")
KILT_SHORT = _of_kind("short", "nq", "triviaqa", "webquestions", "hotpotqa")
_OF_KIND: Mapping[Kind, Format] = {"claims": KILT_CLAIMS, "long": KILT_LONG, "short": KILT_SHORT}
KILT = replace(
    KILT_SHORT,
    name="kilt",
    summary="KILT: knowledge tasks over Wikipedia, with provenance.",
    datasets=("kilt",),
    settle=_settled,
    sniffed=True,
)
"""A file of no known data set: its rows decide of which kind it is, once for all."""
