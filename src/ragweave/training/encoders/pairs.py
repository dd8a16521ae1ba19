"""What small parts learn from: labelled sentences of silver rows, and weighted pairs of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ragweave.errors import UsageError
from ragweave.tools.filters import Span, lexical
from ragweave.tools.text.sentences import split_sentences
from ragweave.trained import PartRole
from ragweave.trained.pairs import SentenceForm
from ragweave.training.job import Settings
from ragweave.training.rows import JudgeRow, SilverRow, TrainingRow, by_passage

_SHARE = 0.5


class LabelledSpan(NamedTuple):
    """A sentence of a passage, and whether the oracle kept it."""

    span: Span
    keep: bool


def sentences_of(row: SilverRow) -> list[LabelledSpan]:
    """Return the sentences of a row's passages, in order, each with its label.

    Where the oracle kept or dropped passages whole, each passage stands in a sentence's place. A
    sentence is one to keep if a kept span covers half of it, or if half of a kept span lies in
    it: spans may come from another sentence splitter, or be whole passages.
    """
    kept: dict[str, list[tuple[int, int]]] = {}
    for span in row["spans"]:
        kept.setdefault(span["passage_id"], []).append((span["start"], span["end"]))
    made = []
    for passage in row["passages"]:
        wanted, text = kept.get(passage["id"], []), passage["text"]
        whole = [(text, 0, len(text))] if by_passage(row) else split_sentences(text)
        for piece, start, end in whole:
            keep = any(_overlap(start, end, *one) for one in wanted)
            made.append(LabelledSpan(_span(passage["id"], piece, start, end), keep))
    return made


def negative_weights(question: str, texts: Sequence[str], hard: float) -> list[float]:
    """Return the weight of each negative of a question; their mean is 1.

    The one that shares the most words with the question weighs `1 + hard` times as much as one
    that shares none: it is what a filter by words would keep by mistake.
    """
    close = [lexical(text, question) for text in texts]
    most = max(close, default=0.0)
    raw = [1 + hard * one / most if most else 1.0 for one in close]
    return [one * len(raw) / sum(raw) for one in raw]


def _overlap(start: int, end: int, first: int, last: int) -> bool:
    shared = min(end, last) - max(start, first)
    return shared > 0 and shared >= _SHARE * min(end - start, last - first)


def _span(name: str, text: str, start: int, end: int) -> Span:
    return {"passage_id": name, "start": start, "end": end, "text": text, "score": 0.0}


@dataclass(frozen=True, kw_only=True)
class SmallSettings(Settings):
    """Settings of small parts."""

    base: str = "minilm"
    """An encoder: `minilm` (packaged), a local path, or a hub name in the hub's cache."""
    learning_rate: float = 3e-5
    """Highest learning rate."""
    batch: int = 16
    """Pairs a step."""
    micro_batch: int = 16
    """Pairs computed at once."""
    max_input: int = 256
    """Most tokens of a pair."""
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.01
    """Decoupled weight decay of AdamW."""
    balance: bool = True
    """Whether both classes weigh the same, however many pairs each has."""
    hard_negatives: float = 1.0
    """How much more a filter's negative weighs that shares the most words with the question; 0:
    all weigh the same."""
    recall: float = 0.0
    """Recall of the sentences to keep that a filter's threshold must reach on held-out rows; 0:
    the threshold with the best F1."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        super().__post_init__()
        if self.hard_negatives < 0:
            raise UsageError(f"hard_negatives must be 0 or more, not {self.hard_negatives}")
        if not 0 <= self.recall <= 1:
            raise UsageError(f"recall must be between 0 and 1, not {self.recall}")


NAMES: dict[PartRole, tuple[str, str]] = {
    "judge": ("not known", "known"),
    "filter": ("drop", "keep"),
}
"""What label 0 and label 1 are called."""


class Pair(NamedTuple):
    """Two texts and what is to be learnt of them."""

    first: str
    second: str
    label: bool
    weight: float
    row: int
    """Position of its row: a filter's pairs of one row are one question's sentences."""
    size: int
    """Length of the draft or sentence in characters."""
    whole: bool = False
    """Whether the sentence is a whole passage, and all of a question's may be dropped."""


def pairs_of(
    role: PartRole, rows: Sequence[TrainingRow], form: SentenceForm, settings: SmallSettings
) -> Iterator[Pair]:
    """Yield the pairs of rows, in order; weights before classes are balanced.

    Args:
        role: A judge has one pair a row, a filter one a sentence.
        rows: Rows for the role.
        form: How a filter reads a sentence in its passage.
        settings: How much hard negatives weigh.
    """
    for number, row in enumerate(rows):
        if role == "judge":
            judged = cast("JudgeRow", row)
            draft = judged["draft"]
            yield Pair(judged["question"], draft, judged["known"], 1.0, number, len(draft))
        else:
            yield from _sentences(number, cast("SilverRow", row), form, settings)


def balanced(role: PartRole, pairs: Sequence[Pair], *, balance: bool) -> list[Pair]:
    """Return the pairs with weights of mean 1, both classes of the same weight together.

    Raises:
        UsageError: All pairs have the same label.
    """
    up = sum(pair.weight for pair in pairs if pair.label)
    down = sum(pair.weight for pair in pairs if not pair.label)
    if not up or not down:
        things = "drafts" if role == "judge" else "sentences"
        label = NAMES[role][int(up > 0)]
        raise UsageError(
            f"all {len(pairs)} {things} to train on are labelled {label!r}: a {role} learns from both"
        )
    if not balance:
        return [pair._replace(weight=pair.weight * len(pairs) / (up + down)) for pair in pairs]
    half = len(pairs) / 2
    return [
        pair._replace(weight=pair.weight * half / (up if pair.label else down)) for pair in pairs
    ]


def _sentences(
    number: int, row: SilverRow, form: SentenceForm, settings: SmallSettings
) -> Iterator[Pair]:
    found = sentences_of(row)
    texts = form.pairs(row["question"], row["passages"], [one.span for one in found])
    negatives = [one.span["text"] for one in found if not one.keep]
    weights = iter(negative_weights(row["question"], negatives, settings.hard_negatives))
    for one, (first, second) in zip(found, texts, strict=True):
        weight = 1.0 if one.keep else next(weights)
        size = len(one.span["text"])
        yield Pair(first, second, one.keep, weight, number, size, by_passage(row))
