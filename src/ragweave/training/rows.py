"""Labelled rows: what `ragweave label` writes and `ragweave train` reads, JSON lines (.gz too).

Fields that training does not need are ignored, so that rows from elsewhere work too.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from ragweave.datasets.rows import rows_of
from ragweave.errors import UsageError
from ragweave.state import RouteName
from ragweave.tools.text.words import normalize_answer, split_sentences
from ragweave.tools.trained.card import TrainedRole
from ragweave.tools.trained.forms import Passage

_HALF = 0.5


class _Labelled(BaseModel):
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class Row(_Labelled):
    """A labelled question."""

    id: str
    question: str = Field(min_length=1)


class JudgeRow(Row):
    """A draft answer, and whether it is known (SlimPLM, section 3.2)."""

    draft: str
    known: bool


class RewriteRow(Row):
    """A draft answer, and the rewriter's reply to it (SlimPLM, section 3.3)."""

    draft: str
    target: str = Field(min_length=1)
    """`<Questions> … </Questions> <Claims> … </Claims>`"""


class RouterRow(Row):
    """A draft answer, and which routes came to a right answer."""

    draft: str = ""
    right: dict[RouteName, bool] = Field(min_length=3)


class LabelledPassage(_Labelled):
    """A passage."""

    id: str
    title: str = ""
    text: str


class Span(_Labelled):
    """A span of a passage, in characters."""

    passage_id: str
    start: int = Field(ge=0)
    end: int


class FilterRow(Row):
    """Passages, and what an oracle or a person keeps of them (FILCO, section 2.2); for filters and generators."""

    answers: list[str] = Field(min_length=1)
    """Right answers; a generator learns the first."""
    passages: list[LabelledPassage] = Field(min_length=1)
    spans: list[Span]
    """What is kept; empty if nothing helps."""
    source: dict[str, Any] = {}
    """How it was labelled, such as `{"measure": "strinc"}`."""

    @model_validator(mode="after")
    def _inside(self) -> Self:
        sizes = {one.id: len(one.text) for one in self.passages}
        if len(sizes) < len(self.passages):
            raise ValueError("two passages have the same id")
        for one in self.spans:
            if not one.start < one.end <= sizes.get(one.passage_id, 0):
                raise ValueError(f"{one.start} to {one.end} is no span of a passage {one.passage_id!r}")
        return self

    @property
    def whole(self) -> bool:
        """Whether passages were kept or dropped whole (the paper's PSG)."""
        return self.source.get("unit") == "passage"

    def kept(self) -> list[str]:
        """Return the kept texts of each passage that any is kept of, passages in order."""
        spans = sorted(self.spans, key=lambda one: one.start)
        texts = [(one, [span for span in spans if span.passage_id == one.id]) for one in self.passages]
        return [" ".join(passage.text[one.start : one.end] for one in own) for passage, own in texts if own]


ROWS: Mapping[TrainedRole, type[Row]] = {
    "judge": JudgeRow,
    "rewriter": RewriteRow,
    "router": RouterRow,
    "filter": FilterRow,
    "generator": FilterRow,
}


def read_rows(path: str | Path, role: TrainedRole) -> list[Row]:
    """Read the rows that train a component of this role.

    Raises:
        UsageError: The file is missing or empty, or a row is not one for this role; the text names file and line.
    """
    return rows_of(path, TypeAdapter(ROWS[role]))


def question_key(row: Row) -> str:
    """Return what two rows of one question share: its normalised text."""
    return normalize_answer(row.question) or row.question.strip().lower()


def split_rows(rows: Sequence[Row], share: float) -> tuple[list[Row], list[Row]]:
    """Split rows into those to train on and about a share of the questions to measure on.

    A question's text alone decides: in every file it falls on the same side, so that a component which is trained
    further is never measured on what it learnt before.
    """
    train, held = list[Row](), list[Row]()
    for row in rows:
        digest = hashlib.blake2b(question_key(row).encode("utf-8", "replace"), digest_size=4).digest()
        (held if int.from_bytes(digest, "big") / 2**32 < share else train).append(row)
    return train, held


def check_apart(train: Sequence[Row], held_out: Sequence[Row]) -> None:
    """Raise `UsageError` if a question is in both files; the text names rows."""
    known = {question_key(row): row.id for row in train}
    twice = [row for row in held_out if question_key(row) in known]
    if twice:
        named = "; ".join(f"{row.question!r} (rows {row.id} and {known[question_key(row)]})" for row in twice[:3])
        raise UsageError(f"{len(twice)} held-out questions are in the training rows too, such as {named}")


def sentences_of(row: FilterRow) -> tuple[list[Passage], list[bool]]:
    """Return a row's passages by sentence, or whole if they are kept or dropped whole, and which texts are to be kept.

    A sentence is kept if a kept span covers half of it or has half of itself in it: spans may come from another
    sentence splitter.
    """
    passages, keep = [], []
    for one in row.passages:
        cut = [] if row.whole else split_sentences(one.text)
        pieces = [(each.text, each.start, each.end) for each in cut] or [(one.text, 0, len(one.text))]
        spans = [(span.start, span.end) for span in row.spans if span.passage_id == one.id]
        passages.append(Passage(one.title, [text for text, _, _ in pieces]))
        keep += [any(_overlap(start, end, *span) for span in spans) for _, start, end in pieces]
    return passages, keep


def unit_of(rows: Sequence[Row]) -> Literal["sentence", "passage"]:
    """Return what a filter that is trained on these rows keeps or drops."""
    return "passage" if all(isinstance(row, FilterRow) and row.whole for row in rows) else "sentence"


def _overlap(start: int, end: int, first: int, last: int) -> bool:
    shared = min(end, last) - max(start, first)
    return shared > 0 and shared >= _HALF * min(end - start, last - first)
