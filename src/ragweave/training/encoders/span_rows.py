"""A span encoder's settings, the examples it learns from, and its threshold and measures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

from ragweave.errors import UsageError
from ragweave.tools.statistics import Interval
from ragweave.trained import is_part
from ragweave.trained.span_reading import Read, Reader, Sheet, Text, Window
from ragweave.trained.span_scorer import (
    relative,
)
from ragweave.training.encoders.base import Measured
from ragweave.training.encoders.pairs import LabelledSpan, sentences_of
from ragweave.training.job import Settings
from ragweave.training.measures import NEUTRAL, Marked, as_json, card_measures, filter_measures
from ragweave.training.rows import SilverRow, TrainingRow

_LONGEST = 16
"""Most tokens of an answer that is looked for: longer ones are sentences themselves."""
_LOOSE = ("strinc",)
"""Measures that keep what holds the answer's words, whether or not it says so."""


class Example(NamedTuple):
    """A row, read; its sentences are numbered through, over all of its passages."""

    read: Read
    gold: list[int]
    """Numbers of the sentences to keep, at least one, and not all."""
    sizes: list[int]
    """Words of each sentence."""
    every: bool
    """Whether each of them is right by itself, or only one of them need be."""
    answers: list[list[bool]]
    """Which tokens of each window are an answer's, in a sentence to keep."""


class TrainingExamples(NamedTuple):
    """The rows that teach something, and how many teach nothing."""

    examples: list[Example]
    empty: int
    """Rows that keep no sentence: a softmax over sentences has no place for none."""
    whole: int
    """Rows that keep every sentence."""


def read_examples(rows: Sequence[TrainingRow], reader: Reader) -> TrainingExamples:
    """Read rows; all passages of a row are one example, so those that hold nothing teach too."""
    made, empty, whole = [], 0, 0
    for row in rows:
        found = sentences_of(cast("SilverRow", row))
        kept = sum(one.keep for one in found)
        if not kept:
            empty += 1
        elif kept == len(found):
            whole += 1
        else:
            made.append(_example(cast("SilverRow", row), found, reader))
    return TrainingExamples(made, empty, whole)


def sheet_of(row: SilverRow, found: Sequence[LabelledSpan]) -> Sheet:
    """Return the sheet that a filter in use reads of such passages."""
    titles = {one["id"]: one["title"] for one in row["passages"]}
    groups = groupby(found, key=lambda one: one.span["passage_id"])
    texts = [Text(titles[name], [one.span["text"] for one in group]) for name, group in groups]
    return Sheet(row["question"], texts)


def _example(row: SilverRow, found: Sequence[LabelledSpan], reader: Reader) -> Example:
    read = reader.read(sheet_of(row, found))
    gold = [index for index, one in enumerate(found) if one.keep]
    wanted = [ids for ids in reader.tokens(row["answers"]) if 0 < len(ids) <= _LONGEST]
    measure = (row.get("source") or {}).get("measure")
    return Example(
        read,
        gold,
        [len(one.span["text"].split()) for one in found],
        measure not in _LOOSE,
        [answer_tokens(window, wanted, set(gold)) for window in read.windows],
    )


def answer_tokens(
    window: Window, wanted: Sequence[Sequence[int]], gold: Collection[int]
) -> list[bool]:
    """Mark the tokens of `gold` sentences that stand in one of the sequences `wanted`."""
    marks = [False] * len(window.ids)
    for first, size in _places(window, wanted):
        owners = window.owners[first : first + size]
        if owners[0] in gold and owners[0] == owners[-1]:
            marks[first : first + size] = [True] * size
    return marks


def _places(window: Window, wanted: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    for ids in map(list, wanted):
        for index, one in enumerate(window.ids):
            if one == ids[0] and window.ids[index : index + len(ids)] == ids:
                yield index, len(ids)


_SLACK = 1 - 1e-4
"""Below the last share that is to be kept: scores differ by floating-point noise."""


def span_threshold(
    logits: Sequence[Sequence[float]], golds: Sequence[Sequence[int]], recall: float
) -> float:
    """Return the highest threshold at which the mean recall over questions is `recall`.

    Args:
        logits: Of each question's sentences.
        golds: Numbers of the sentences to keep, at least one a question.
        recall: What is wanted, in [0, 1].

    Returns:
        A share of the best sentence's probability, in (0, 1); 0.5 where there is no question.
    """
    found = sorted(
        (
            (relative(scores)[index], 1 / len(gold) / len(logits))
            for scores, gold in zip(logits, golds, strict=True)
            for index in gold
        ),
        reverse=True,
    )
    reached, least = 0.0, NEUTRAL
    for share, weight in found:
        reached, least = reached + weight, share * _SLACK
        if reached >= recall - 1e-9:
            break
    return least


def span_measures(
    logits: Sequence[Sequence[float]],
    golds: Sequence[Sequence[int]],
    sizes: Sequence[Sequence[int]],
    threshold: float,
) -> dict[str, Any]:
    """Return first hit, hit in two, recall, precision and share of words kept, with intervals.

    Args:
        logits: Of each question's sentences.
        golds: Numbers of the sentences to keep.
        sizes: Words of each sentence.
        threshold: Share of the best one's probability that a sentence must reach; all that do
            are kept.
    """
    return _named(filter_measures(_marked(logits, golds, sizes), _below(threshold)))


def measure_spans(
    examples: Sequence[Example], logits: Sequence[Sequence[float]], recall: float
) -> Measured:
    """Choose the threshold and measure at it; without held-out examples it is 0.5.

    The measures are those of `card_measures`, in words. Rows that keep no sentence or all of them
    are no examples and not in them: `span_encoder` counts them separately.
    """
    if not examples:
        return Measured(NEUTRAL, {})
    golds = [one.gold for one in examples]
    threshold = span_threshold(logits, golds, recall)
    marked = _marked(logits, golds, [one.sizes for one in examples])
    return Measured(threshold, _named(card_measures(marked, _below(threshold))))


def _marked(
    logits: Sequence[Sequence[float]],
    golds: Sequence[Sequence[int]],
    sizes: Sequence[Sequence[int]],
) -> list[Marked]:
    return [
        Marked(relative(scores), [index in set(gold) for index in range(len(scores))], size)
        for scores, gold, size in zip(logits, golds, sizes, strict=True)
    ]


def _below(threshold: float) -> float:
    """Return what a share that reaches the threshold exceeds."""
    return math.nextafter(threshold, -1.0)


def _named(found: Mapping[str, Interval]) -> dict[str, Any]:
    """Name words as words, and leave `empty` out: the best sentence is always kept."""
    return as_json(
        {name.replace("tokens", "words"): one for name, one in found.items() if name != "empty"}
    )


FURTHER = {"epochs": 2.0, "learning_rate": 5e-5}
"""What is usual where a training begins from a trained span encoder."""


_SHARES = ("dropout", "recall", "every_weight")


@dataclass(frozen=True, kw_only=True)
class SpanSettings(Settings):
    """Settings of span encoders; from another span encoder: 2 epochs at 5e-5."""

    base: str = "minilm"
    """An encoder (`minilm`, a local path, a hub name), or the folder of a span encoder, whose
    encoder and head are trained further."""
    epochs: float = 3.0
    """Times that each row is seen."""
    learning_rate: float = 1e-4
    """Highest learning rate of the encoder's last layer."""
    head_rate: float = 5e-4
    """Highest learning rate of the head."""
    layer_decay: float = 0.9
    """How much slower each layer learns than the one above it."""
    frozen_layers: int = 2
    """Lowest layers that don't learn, and with them the embeddings; 0: all learn."""
    batch: int = 16
    """Rows a step."""
    micro_batch: int = 16
    """Rows computed at once."""
    max_input: int = 256
    """Most tokens of a window."""
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.01
    """Decoupled weight decay of AdamW."""
    dropout: float = 0.1
    """Dropout in the head."""
    every_weight: float = 0.5
    """How much of the loss asks for every sentence to keep, rather than for any of them."""
    answer_weight: float = 0.5
    """Weight of finding the answer's tokens in the sentences to keep."""
    recall: float = 0.9
    """Recall of the sentences to keep that the threshold must reach on held-out rows."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        super().__post_init__()
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} must be between 0 and 1, not {getattr(self, name)}")
        if not 0 < self.layer_decay <= 1:
            raise UsageError(f"layer_decay must be above 0 and at most 1, not {self.layer_decay}")
        for name in ("frozen_layers", "answer_weight"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.head_rate <= 0:
            raise UsageError(f"head_rate must be above 0, not {self.head_rate}")

    def suited(self, given: Collection[str]) -> Self:
        """Return the settings; where the base is a trained part, fewer and smaller steps."""
        if not is_part(Path(self.base).expanduser()):
            return self
        usual: dict[str, Any] = {name: one for name, one in FURTHER.items() if name not in given}
        return dataclasses.replace(self, **usual)
