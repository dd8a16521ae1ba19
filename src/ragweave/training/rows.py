"""Labelled rows: what `ragweave label` writes and `ragweave train` reads, JSON lines (.gz too).

Other fields are ignored, so that rows from elsewhere work too.
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


class _Base(BaseModel):
    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)


class LabelledRow(_Base):
    """A labelled question."""

    id: str
    question: str = Field(min_length=1)


class JudgeRow(LabelledRow):
    """A draft answer, and whether it is known (SlimPLM, section 3.2)."""

    draft: str
    known: bool


class RewriteRow(LabelledRow):
    """A draft answer, and the rewriter's reply to it (SlimPLM, section 3.3)."""

    draft: str
    target: str = Field(min_length=1)
    """`<Questions> … </Questions> <Claims> … </Claims>`"""


class RouterRow(LabelledRow):
    """A draft answer, and which routes gave a right answer."""

    draft: str = ""
    right: dict[RouteName, bool] = Field(min_length=3)


class LabelledPassage(_Base):
    """A passage."""

    id: str
    title: str = ""
    text: str


class KeptSpan(_Base):
    """A span of a passage, in characters."""

    passage_id: str
    start: int = Field(ge=0)
    end: int


class FilterRow(LabelledRow):
    """Passages, and the spans of them that an oracle or a person keeps (FILCO, section 2.2); for filters and generators."""

    answers: list[str] = Field(min_length=1)
    """Right answers; a generator learns the first."""
    passages: list[LabelledPassage] = Field(min_length=1)
    spans: list[KeptSpan]
    """The kept spans; empty if nothing helps."""
    source: dict[str, Any] = {}
    """How it was labelled, such as `{"measure": "strinc"}`."""

    @model_validator(mode="after")
    def _inside(self) -> Self:
        sizes = {passage.id: len(passage.text) for passage in self.passages}
        if len(sizes) < len(self.passages):
            raise ValueError("two passages have the same id")
        for span in self.spans:
            if not span.start < span.end <= sizes.get(span.passage_id, 0):
                raise ValueError(f"{span.start} to {span.end} is not a span of a passage {span.passage_id!r}")
        return self

    @property
    def by_passage(self) -> bool:
        """Whether entire passages were kept or dropped (the paper's PSG)."""
        return self.source.get("unit") == "passage"

    def kept_texts(self) -> list[str]:
        """Return the kept text of each passage that has any, in order."""
        spans = sorted(self.spans, key=lambda span: span.start)
        texts = [(passage, [span for span in spans if span.passage_id == passage.id]) for passage in self.passages]
        return [" ".join(passage.text[span.start : span.end] for span in spans) for passage, spans in texts if spans]


ROWS: Mapping[TrainedRole, type[LabelledRow]] = {
    "judge": JudgeRow,
    "rewriter": RewriteRow,
    "router": RouterRow,
    "filter": FilterRow,
    "generator": FilterRow,
}


def read_rows(path: str | Path, role: TrainedRole) -> list[LabelledRow]:
    """Read the rows that train a component of this role.

    Raises:
        UsageError: The file is missing or empty, or a row is not for this role; the text names file and line.
    """
    return rows_of(path, TypeAdapter(ROWS[role]))


def question_key(row: LabelledRow) -> str:
    """Return the key that rows of one question share: its normalised text."""
    return normalize_answer(row.question) or row.question.strip().lower()


def split_rows(rows: Sequence[LabelledRow], share: float) -> tuple[list[LabelledRow], list[LabelledRow]]:
    """Split rows into those to train on and those to measure on, about `share` of the questions.

    Only the question's text decides, so that a component that is trained further is never measured on a question that it
    has learnt before.
    """
    train, held_out = list[LabelledRow](), list[LabelledRow]()
    for row in rows:
        digest = hashlib.blake2b(question_key(row).encode("utf-8", "replace"), digest_size=4).digest()
        (held_out if int.from_bytes(digest, "big") / 2**32 < share else train).append(row)
    return train, held_out


def check_disjoint(train: Sequence[LabelledRow], held_out: Sequence[LabelledRow]) -> None:
    """Raise `UsageError`, which names the rows, if a question is in both files."""
    known = {question_key(row): row.id for row in train}
    twice = [row for row in held_out if question_key(row) in known]
    if twice:
        examples = "; ".join(f"{row.question!r} (rows {row.id} and {known[question_key(row)]})" for row in twice[:3])
        raise UsageError(f"{len(twice)} held-out questions are in the training rows too, such as {examples}")


def sentences_of(row: FilterRow) -> tuple[list[Passage], list[bool]]:
    """Return a row's passages as sentences, or as one text each if entire passages are kept, and which texts to keep.

    A sentence is kept if it shares at least half of itself, or of the span, with a kept span: spans may come from another
    sentence splitter.
    """
    passages, keep = [], []
    for passage in row.passages:
        cut = [] if row.by_passage else split_sentences(passage.text)
        pieces = [(sentence.text, sentence.start, sentence.end) for sentence in cut] or [
            (passage.text, 0, len(passage.text))
        ]
        spans = [(span.start, span.end) for span in row.spans if span.passage_id == passage.id]
        passages.append(Passage(passage.title, [text for text, _, _ in pieces]))
        keep += [any(_overlap(start, end, *span) for span in spans) for _, start, end in pieces]
    return passages, keep


def unit_of(rows: Sequence[LabelledRow]) -> Literal["sentence", "passage"]:
    """Return the unit that a filter trained on these rows keeps or drops."""
    return "passage" if all(isinstance(row, FilterRow) and row.by_passage for row in rows) else "sentence"


def _overlap(start: int, end: int, first: int, last: int) -> bool:
    shared = min(end, last) - max(start, first)
    return shared > 0 and shared >= _HALF * min(end - start, last - first)
