"""KILT: FEVER, Wizard of Wikipedia, ELI5, NQ, … in one form (Petroni et al. 2021).

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
from typing import Any, Literal

from langchain_core.documents import Document

from ragweave.evaluation.datasets.claims import CLAIM, VERDICTS
from ragweave.evaluation.datasets.format import Format
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, Rows, only

_LONG = 12
"""Words from which on an answer is a text rather than a phrase."""

_LOOKED_AT = 1000
"""Rows that tell of which kind a file is that no data set's name tells."""

Kind = Literal["claims", "long", "short"]


def _read(row: Row, kind: Kind) -> Iterator[Question]:
    outputs = row.items("output")
    answers = _answers(outputs)
    if not answers:
        raise row.fault("gold is missing: no 'output' has an 'answer'")
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
        raise row.fault(f"'answer' must be SUPPORTS or REFUTES, not {answer!r}")
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
