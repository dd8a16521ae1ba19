"""Held-out rows: split by question, so that no question stands on both sides."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ragweave.errors import UsageError
from ragweave.tools.text.normalize import normalize_answer
from ragweave.training.rows import TrainingRow

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
            f"{len(twice)} held-out questions stand in the training rows too: {named}{more}"
        )
