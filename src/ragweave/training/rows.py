"""Training rows: what `ragweave label` writes and `ragweave train` reads, JSON lines (.gz too).

Every row keeps where it came from in `source`: data set, its hash, the row's id there, and how it
was labelled. Fields that training does not need are read and ignored, so other people's rows do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NotRequired, TypeVar

from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.evaluation.datasets.files import rows_of
from ragweave.evaluation.datasets.rows import Row
from ragweave.tools.filters import Span
from ragweave.tools.parts import PartRole
from ragweave.tools.tasks import TaskPassage


class JudgeRow(TypedDict):
    """A draft answer and whether it is known (SlimPLM, section 3.2)."""

    id: str
    question: str
    draft: str
    known: bool
    answers: NotRequired[list[Any]]
    """Gold short answers: texts, or lists of aliases."""
    match_ratio: NotRequired[float]
    source: NotRequired[dict[str, Any]]


class RewriteRow(TypedDict):
    """A draft answer and the rewriter's reply to it (SlimPLM, section 3.3 and Table 8)."""

    id: str
    question: str
    draft: str
    target: str
    """The reply to be learnt: `<Questions> … </Questions> <Claims> … </Claims>`."""
    source: NotRequired[dict[str, Any]]


class SilverRow(TypedDict):
    """Passages and what an oracle keeps of them (FILCO, section 2.2): trains filter and generator."""

    id: str
    question: str
    answers: list[str]
    """Gold answers, the first of which a generator learns."""
    passages: list[TaskPassage]
    spans: list[Span]
    """What the oracle kept, in rank and reading order; empty where nothing helps."""
    source: NotRequired[dict[str, Any]]


TrainingRow = JudgeRow | RewriteRow | SilverRow
RowT = TypeVar("RowT", JudgeRow, RewriteRow, SilverRow)


def silver_text(row: SilverRow) -> str:
    """Return the silver context t: the kept spans' texts, joined by spaces; "" where none is kept."""
    return " ".join(" ".join(span["text"].split()) for span in row["spans"])


def read_rows(path: str | Path, role: PartRole) -> list[TrainingRow]:
    """Read the rows that train a part of this role.

    Raises:
        UsageError: The file is missing, unreadable or empty, or a row is no row for this role;
            the text names file and line.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    rows = [_READERS[role](row) for row in rows_of(file)]
    if not rows:
        raise UsageError(f"{file}: no rows in it")
    return rows


def _judge(row: Row) -> TrainingRow:
    known = row.value("known")
    if not isinstance(known, bool):
        raise row.fault(f"'known' must be true or false, not {known!r}")
    made: JudgeRow = {
        "id": row.id("id"),
        "question": row.text("question"),
        "draft": _draft(row),
        "known": known,
    }
    for name in ("answers", "match_ratio", "source"):
        if name in row.fields:
            made[name] = row.fields[name]
    return made


def _rewrite(row: Row) -> TrainingRow:
    made: RewriteRow = {
        "id": row.id("id"),
        "question": row.text("question"),
        "draft": _draft(row),
        "target": row.text("target"),
    }
    if "source" in row.fields:
        made["source"] = row.fields["source"]
    return made


def _silver(row: Row) -> TrainingRow:
    passages = [_passage(one) for one in row.items("passages")]
    texts = {one["id"]: one["text"] for one in passages}
    if len(texts) < len(passages):
        raise row.fault("two passages have one id")
    spans = [_span(one, texts) for one in row.items("spans")] if row.fields.get("spans") else []
    made: SilverRow = {
        "id": row.id("id"),
        "question": row.text("question"),
        "answers": list(row.texts("answers", "answer")),
        "passages": passages,
        "spans": spans,
    }
    if "source" in row.fields:
        made["source"] = row.fields["source"]
    return made


def _draft(row: Row) -> str:
    """Return the draft; an empty one (the proxy said nothing) is a draft too."""
    draft = row.fields.get("draft")
    if not isinstance(draft, str):
        raise row.fault(f"'draft' must be a text, not {type(draft).__name__}")
    return draft.strip()


def _passage(row: Row) -> TaskPassage:
    title = row.fields.get("title") or ""
    return {"id": row.id("id"), "title": str(title), "text": _plain_text(row, "text")}


def _plain_text(row: Row, name: str) -> str:
    """Return a text as it stands: offsets count in it, so nothing is stripped."""
    value = row.fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise row.fault(f"{name!r} must be a text that is not empty")
    return value


def _span(row: Row, texts: Mapping[str, str]) -> Span:
    name, start, end = (row.value(field) for field in ("passage_id", "start", "end"))
    text = texts.get(name)
    if text is None:
        raise row.fault(f"no passage has the id {name!r}")
    if not (type(start) is int and type(end) is int and 0 <= start < end <= len(text)):
        raise row.fault(f"{start!r} to {end!r} is no piece of a passage of {len(text)} characters")
    score = row.fields.get("score")
    return {
        "passage_id": name,
        "start": start,
        "end": end,
        "text": text[start:end],
        "score": float(score) if isinstance(score, int | float) else 1.0,
    }


_READERS = {"judge": _judge, "rewriter": _rewrite, "filter": _silver, "generator": _silver}
