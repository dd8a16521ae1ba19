"""Training rows: what `ragweave label` writes and `ragweave train` reads, JSON lines (.gz too).

Every row keeps where it came from in `source`: data set, its hash, the row's id there, and how it
was labelled. Fields that training does not need are ignored, so rows from elsewhere work too.

Held-out rows are split off by question, so that no question is on both sides. A part keeps hashes
of the questions it has learnt from, which reveal no question: a training that begins from another
part is measured on questions that neither has seen.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypeVar

from typing_extensions import TypedDict

from ragweave.datasets.recorded import RECORDED, recording_of
from ragweave.datasets.rows import Row, rows_of
from ragweave.errors import UsageError
from ragweave.state.records import ROUTES, RouteName
from ragweave.tools.files import parse_json, write_atomic
from ragweave.tools.filters import Span
from ragweave.tools.models.tasks import TaskPassage
from ragweave.tools.text.normalize import normalize_answer
from ragweave.trained import PartRole


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


class RouterRow(TypedDict):
    """A draft answer, and which routes came to a right answer."""

    id: str
    question: str
    draft: str
    """Empty where the row has none: a router of questions alone needs none."""
    right: dict[RouteName, bool]
    """By route, whether its answer was right; the gold answers themselves are not kept."""
    source: NotRequired[dict[str, Any]]


TrainingRow = JudgeRow | RewriteRow | SilverRow | RouterRow
RowT = TypeVar("RowT", JudgeRow, RewriteRow, SilverRow, RouterRow)


def by_passage(row: SilverRow) -> bool:
    """Say whether passages were kept or dropped whole (FILCO's PSG), so that none may be left."""
    return (row.get("source") or {}).get("unit") == "passage"


def silver_text(row: SilverRow) -> str:
    """Return the silver context t: the kept spans' texts, joined by spaces; "" where none is kept."""
    return " ".join(" ".join(span["text"].split()) for span in row["spans"])


def read_rows(path: str | Path, role: PartRole) -> list[TrainingRow]:
    """Read the rows that train a part of this role.

    Raises:
        UsageError: The file is missing, unreadable or empty, or a row is not one for this role;
            the text names file and line.
    """
    file = Path(path)
    if not file.is_file():
        raise UsageError(f"{file}: there is no such file")
    rows = [_READERS[role](row) for row in rows_of(file)]
    if not rows:
        raise UsageError(f"{file}: has no rows")
    return rows


def _judge(row: Row) -> TrainingRow:
    known = row.value("known")
    if not isinstance(known, bool):
        raise row.error(f"'known' must be true or false, not {known!r}")
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
        raise row.error("two passages have the same id")
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


def _router(row: Row) -> TrainingRow:
    """Read a row of outcomes, or what was recorded of a question by each route."""
    if RECORDED.fits(row.fields):
        one = recording_of(row)
        reply = one.replies["none"]
        said = reply.reasoning or reply.answer
        made: RouterRow = {
            "id": one.id,
            "question": one.question,
            "draft": said,
            "right": one.right(),
        }
        return made
    right = row.value("right")
    if not isinstance(right, Mapping) or any(type(right.get(name)) is not bool for name in ROUTES):
        raise row.error(f"'right' must say true or false of each of {', '.join(ROUTES)}")
    given: RouterRow = {
        "id": row.id("id"),
        "question": row.text("question"),
        "draft": _draft(row) if "draft" in row.fields else "",
        "right": {name: right[name] for name in ROUTES},
    }
    return given


def _draft(row: Row) -> str:
    """Return the draft; an empty one (the proxy said nothing) is a draft too."""
    draft = row.fields.get("draft")
    if not isinstance(draft, str):
        raise row.error(f"'draft' must be a string, not {type(draft).__name__}")
    return draft.strip()


def _passage(row: Row) -> TaskPassage:
    title = row.fields.get("title") or ""
    return {"id": row.id("id"), "title": str(title), "text": _plain_text(row, "text")}


def _plain_text(row: Row, name: str) -> str:
    """Return a text as it stands: offsets count in it, so nothing is stripped."""
    value = row.fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise row.error(f"{name!r} must be a string that is not empty")
    return value


def _span(row: Row, texts: Mapping[str, str]) -> Span:
    name, start, end = (row.value(field) for field in ("passage_id", "start", "end"))
    text = texts.get(name)
    if text is None:
        raise row.error(f"no passage has the id {name!r}")
    if not (type(start) is int and type(end) is int and 0 <= start < end <= len(text)):
        raise row.error(
            f"{start!r} to {end!r} is not a span of a passage of {len(text)} characters"
        )
    score = row.fields.get("score")
    return {
        "passage_id": name,
        "start": start,
        "end": end,
        "text": text[start:end],
        "score": float(score) if isinstance(score, int | float) else 1.0,
    }


_READERS = {
    "judge": _judge,
    "rewriter": _rewrite,
    "filter": _silver,
    "generator": _silver,
    "router": _router,
}


_NAMED = 5
_ALL_SEEN = "the base part has learnt from too many of these questions"


class Split(NamedTuple):
    """Rows to train on and rows to measure and calibrate on."""

    train: list[TrainingRow]
    held_out: list[TrainingRow]


def question_key(row: TrainingRow) -> str:
    """Return what two rows of one question share: its normalised text."""
    return normalize_answer(row["question"]) or row["question"].strip().lower()


def split_rows(
    rows: Sequence[TrainingRow],
    share: float,
    seed: int,
    free: Callable[[TrainingRow], bool] = lambda row: True,  # noqa: ARG005
) -> Split:
    """Split rows by question: about `share` of the questions are held out, at least one each side.

    Args:
        rows: All rows; their order is kept on both sides.
        share: Share of the questions held out, in [0, 1); 0 holds out none.
        seed: Seed of the draw; the same rows and seed give the same split.
        free: Which rows may be held out; others are trained on.

    Raises:
        UsageError: `share` is out of range, or there are not two questions to part.
    """
    if not 0 <= share < 1:
        raise UsageError(f"held_out must be 0 or more and below 1, not {share}")
    if share == 0:
        return Split(list(rows), [])
    keys = {question_key(row) for row in rows}
    open_ = sorted({question_key(row) for row in rows if free(row)})
    size = min(max(1, round(share * len(keys))), len(keys) - 1)
    if len(keys) < 2 or size > len(open_):
        raise UsageError(
            f"{'rows of one question alone cannot be split' if len(keys) < 2 else _ALL_SEEN}: "
            f"give held-out rows by --held-out, or hold out none by --set held_out=0"
        )
    drawn = set(random.Random(seed).sample(open_, size))
    return Split(
        [row for row in rows if question_key(row) not in drawn],
        [row for row in rows if question_key(row) in drawn],
    )


def check_apart(train: Sequence[TrainingRow], held_out: Sequence[TrainingRow]) -> None:
    """Check that no question stands both in the training rows and in the held-out rows.

    Raises:
        UsageError: Some do; the text names the rows by id.
    """
    known = {question_key(row): row["id"] for row in train}
    twice = [(row, known[key]) for row in held_out if (key := question_key(row)) in known]
    if twice:
        named = "; ".join(
            f"{row['question']!r} (held-out row {row['id']}, training row {other})"
            for row, other in twice[:_NAMED]
        )
        more = f"; and {len(twice) - _NAMED} more" if len(twice) > _NAMED else ""
        raise UsageError(
            f"{len(twice)} held-out questions are in the training rows too: {named}{more}"
        )


QUESTIONS = "questions.json"
_BYTES = 8


def question_hash(row: TrainingRow) -> str:
    """Return the hash of a row's question: 16 hex digits, of its normalised text."""
    key = question_key(row).encode("utf-8", "replace")
    return hashlib.blake2b(key, digest_size=_BYTES).hexdigest()


def read_question_hashes(folder: Path) -> frozenset[str]:
    """Return the hashes of the questions that a part has learnt from; none where it keeps none.

    Raises:
        UsageError: The file is damaged.
    """
    path = folder / QUESTIONS
    if not path.is_file():
        return frozenset()
    try:
        hashes = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
    if not isinstance(hashes, list) or not all(isinstance(one, str) for one in hashes):
        raise UsageError(f"{path}: is not a list of question hashes")
    return frozenset(hashes)


def write_question_hashes(
    folder: Path, rows: Iterable[TrainingRow], before: Collection[str]
) -> None:
    """Write the hashes of these rows' questions, and those of the questions learnt before."""
    hashes = sorted({*map(question_hash, rows), *before})
    write_atomic(folder / QUESTIONS, json.dumps(hashes) + "\n", alone=True)


def check_unseen(held_out: Sequence[TrainingRow], seen: Collection[str], base: str) -> None:
    """Check that the base part has not learnt from held-out questions.

    Raises:
        UsageError: It has; the text names the rows.
    """
    learnt = [row for row in held_out if question_hash(row) in seen]
    if learnt:
        named = "; ".join(f"{row['question']!r} (row {row['id']})" for row in learnt[:5])
        more = f"; and {len(learnt) - 5} more" if len(learnt) > 5 else ""
        raise UsageError(
            f"{base}: has learnt from {len(learnt)} of the held-out questions: {named}{more}"
        )
