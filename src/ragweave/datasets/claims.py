"""Fact verification (FEVER, Fool Me Twice), and the KILT benchmark, which FEVER is part of.

A claim is asked as a yes/no question. Sources: FEVER in its authors' own format (Thorne et al.
2018), Fool Me Twice (Eisenschlos et al. 2021), KILT (Petroni et al. 2021).

KILT puts FEVER, Wizard of Wikipedia, ELI5, NQ and others into one format: a row holds `input` and
`output`, a list of answers with the provenance of each. All rows of a data set are of one kind,
whatever a single row looks like: ELI5 and Wizard of Wikipedia are scored as long answers even
where an answer is short.
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
from ragweave.datasets.rows import NO_GOLD, Row, Rows, pick

CLAIM = "Is this claim true? {claim}"
"""How a claim is asked."""

VERDICTS: Mapping[str, str] = MappingProxyType(
    {"SUPPORTS": "Yes", "SUPPORTED": "Yes", "REFUTES": "No", "REFUTED": "No"}
)
"""The answer that each label stands for."""

_UNDECIDED = "NOT ENOUGH INFO"


def _read_fever(row: Row) -> Iterator[Question]:
    yield _claim(row, row.text("claim"), ())


def _read_fool_me_twice(row: Row) -> Iterator[Question]:
    yield _claim(row, row.text("text"), tuple(_evidence(row)))


def _claim(row: Row, claim: str, passages: tuple[Document, ...]) -> Question:
    label = row.text("label")
    if label not in VERDICTS and label != _UNDECIDED:
        raise row.error(f"'label' must be SUPPORTS, REFUTES or {_UNDECIDED}, not {label!r}")
    return Question(
        id=row.id("id"),
        question=CLAIM.format(claim=claim),
        answers=(VERDICTS[label],) if label in VERDICTS else (),
        scoring="accuracy",
        answer_type="yes_no",
        answerable=label in VERDICTS,
        passages=passages,
        about=pick(row.fields, "category", "label"),
    )


def _evidence(row: Row) -> Iterator[Document]:
    title = str(row.fields.get("wikipedia_page") or "")
    gold = {one.text("text"): one for one in row.items("gold_evidence")}
    for text, one in gold.items():
        yield passage(text, title, gold=True, **pick(one.fields, "section_header"))
    for one in row.items("retrieved_evidence", optional=True):
        if one.text("text") not in gold:
            yield passage(one.text("text"), title, **pick(one.fields, "section_header"))


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
"""Words from which an answer counts as long."""

_SAMPLED = 1000
"""Rows that decide which kind a file is where no data set is named."""

Kind = Literal["claims", "long", "short"]


def _read_kilt(row: Row, kind: Kind) -> Iterator[Question]:
    outputs = row.items("output")
    answers = _answers(outputs)
    if not answers:
        raise row.error(f"{NO_GOLD}: no 'output' has an 'answer'")
    shared: dict[str, Any] = {
        "id": row.id("id"),
        "passages": tuple(_passages(outputs)),
        "about": pick(row.fields, "meta"),
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
    """Return the kind that a row looks like; only many rows together settle it."""
    answers = _answers(row.items("output"))
    if answers and all(answer in VERDICTS for answer in answers):
        return "claims"
    dialogue = "\n" in row.text("input")
    shortest = min((len(answer.split()) for answer in answers), default=0)
    return "long" if dialogue or shortest >= _LONG else "short"


def _settle_kilt(rows: Rows) -> Format:
    """Return the format of the kind that most of a file's first rows look like."""
    kinds = Counter(_kind_of(row) for row in islice(rows, _SAMPLED))
    return _OF_KIND[kinds.most_common(1)[0][0]]


def _passages(outputs: list[Row]) -> Iterator[Document]:
    """Yield the provenance that includes its text; KILT's plain files give titles only."""
    seen: set[str] = set()
    for output in outputs:
        for source in output.items("provenance", optional=True):
            text = source.text("text", optional=True)
            if text and text not in seen:
                seen.add(text)
                yield passage(text, str(source.fields.get("title") or ""), gold=True)


def _fits_kilt(fields: Mapping[str, Any]) -> bool:
    output = fields.get("output")
    return "input" in fields and isinstance(output, list) and "passages" not in fields


def _of_kind(kind: Kind, *datasets: str) -> Format:
    return Format(
        name=f"kilt_{kind}",
        summary=f"KILT's format of {', '.join(datasets)}.",
        datasets=datasets,
        expects="id, input, output (a list of objects with answer and provenance)",
        fits=_fits_kilt,
        read=partial(_read_kilt, kind=kind),
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
    settle=_settle_kilt,
    sniffed=True,
)
"""A file of no named data set: its first rows decide which kind the whole file is."""
