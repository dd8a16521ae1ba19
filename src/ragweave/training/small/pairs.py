"""From training rows to the pairs of texts that a cross-encoder learns, with label and weight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from ragweave.errors import UsageError
from ragweave.tools.parts import PartRole
from ragweave.tools.parts.sentence_form import SentenceForm
from ragweave.training.rows import JudgeRow, SilverRow, TrainingRow
from ragweave.training.small.sentences import negative_weights, sentences_of
from ragweave.training.small.settings import SmallSettings

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
        yield Pair(first, second, one.keep, weight, number, len(one.span["text"]))
