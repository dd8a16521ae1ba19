"""KILT: FEVER, Wizard of Wikipedia, ELI5, NQ, … in one form (Petroni et al. 2021).

A row holds `input` and `output`, a list of answers with the provenance of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from langchain_core.documents import Document

from ragweave.evaluation.datasets.claims import CLAIM, VERDICTS
from ragweave.evaluation.datasets.format import Format
from ragweave.evaluation.datasets.question import Question, passage
from ragweave.evaluation.datasets.rows import Row, only

_LONG = 12
"""Words from which on an answer is a text rather than a phrase."""


def _read(row: Row) -> Iterator[Question]:
    outputs = row.items("output")
    answers = tuple(
        dict.fromkeys(one.text("answer") for one in outputs if one.fields.get("answer"))
    )
    if not answers:
        raise row.fault("gold is missing: no 'output' has an 'answer'")
    shared: dict[str, Any] = {
        "id": row.id("id"),
        "passages": tuple(_passages(outputs)),
        "about": only(row.fields, "meta"),
    }
    text = row.text("input")
    if all(answer in VERDICTS for answer in answers):
        yield Question(
            question=CLAIM.format(claim=text),
            answers=tuple(VERDICTS[answer] for answer in answers),
            scoring="accuracy",
            answer_type="yes_no",
            **shared,
        )
    elif _is_dialogue(text) or min(len(answer.split()) for answer in answers) >= _LONG:
        yield Question(question=text, answers=answers, scoring="long", answer_type="long", **shared)
    else:
        yield Question(question=text, answers=answers, **shared)


def _is_dialogue(text: str) -> bool:
    return "\n" in text


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


KILT = Format(
    name="kilt",
    summary="KILT: knowledge tasks over Wikipedia, with provenance.",
    datasets=("nq", "triviaqa", "webquestions", "hotpotqa", "eli5", "fever", "wow", "kilt"),
    expects="id, input, output (a list of objects with answer and provenance)",
    fits=_fits,
    read=_read,
)
