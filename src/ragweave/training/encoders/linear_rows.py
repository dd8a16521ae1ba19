"""Reading a judge's training rows with the encoder, and what is usual among them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import numpy as np

from ragweave.trained.judge_reading import (
    COLUMNS,
    Array,
    Encoder,
    PairFeatures,
    ReferenceMoments,
    pair_texts,
    read_pairs,
)
from ragweave.training.encoders.kept_rows import Rows, read_once
from ragweave.training.job import Job
from ragweave.training.rows import JudgeRow, TrainingRow

_AT_ONCE = 16
_TEXTS = 256
_NAMES = 1000
"""Most candidates that the reference is taken of."""


def pairs_of(rows: Sequence[TrainingRow]) -> list[tuple[str, str]]:
    """Return question and draft of each row."""
    return [(row["question"], cast("JudgeRow", row)["draft"]) for row in rows]


def reference_moments(
    rows: Sequence[TrainingRow],
    encoder: Encoder,
    seed: int,
    look: Callable[[], None] = lambda: None,
) -> ReferenceMoments:
    """Return what is usual among training rows: their questions, their drafts' first candidates.

    Args:
        rows: Training rows, no held-out ones.
        encoder: What reads them.
        seed: Seed of the draw of candidates.
        look: Called now and then.
    """
    texts = [pair_texts(*pair) for pair in pairs_of(rows)]
    names = sorted({name for one in texts for name in one.first})
    drawn = random.Random(seed).sample(names, min(_NAMES, len(names)))
    questions = [one.question for one in texts]
    known: dict[str, Array] = {}
    for some in _batches([*questions, *drawn]):
        look()
        known |= encoder.vectors(some)
    size = encoder.dimension
    return ReferenceMoments.of(
        np.asarray([known[one] for one in questions]).reshape(-1, size),
        np.asarray([known[one] for one in drawn]).reshape(-1, size),
    )


def read_rows(job: Job, encoder: Encoder, reference: ReferenceMoments) -> PairFeatures:
    """Read all rows of a job, training rows first; what a resumed job has read already is kept.

    Raises:
        KeyboardInterrupt: Somebody wants to stop; what was read is kept.
        TrainingStoppedError: The encoder's vectors are not finite, or the disk is full.
    """
    pairs = pairs_of([*job.rows.train, *job.rows.held_out])

    def read(part: slice) -> Rows:
        return {"rows": np.hstack(read_pairs(pairs[part], encoder, reference))}

    blank = {"rows": np.zeros((0, len(COLUMNS) + 2 * encoder.dimension))}
    found = read_once(job, len(pairs), _AT_ONCE, read, blank)["rows"]
    return PairFeatures(found[:, : len(COLUMNS)], found[:, len(COLUMNS) :])


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(texts), _TEXTS):
        yield texts[first : first + _TEXTS]
