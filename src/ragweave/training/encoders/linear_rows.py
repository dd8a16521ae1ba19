"""Reading a judge's training rows with the encoder, and keeping what was read.

It is nearly all the time that the training takes; what was read stands under the checkpoints, so
that a stopped training reads no row twice.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import numpy as np

from ragweave.tools.files import is_full_disk, replacing
from ragweave.trained.judge_reading import (
    COLUMNS,
    Array,
    Encoder,
    PairFeatures,
    ReferenceMoments,
    pair_texts,
    read_pairs,
)
from ragweave.training.job import CHECKPOINTS, Job, TrainingStoppedError
from ragweave.training.rows import JudgeRow, TrainingRow

KEPT = "read.safetensors"
"""What was read, under the checkpoints."""

_AT_ONCE = 16
_TEXTS = 256
_SAVE_EVERY = 512
"""Rows between two times that what was read is kept."""
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
    file = job.folder / CHECKPOINTS / KEPT
    found = _kept(file, encoder.dimension) if job.resume else _empty(encoder.dimension)
    saved = len(found)
    while len(found) < len(pairs) and not job.watch.stop_wanted:
        read = read_pairs(pairs[len(found) : len(found) + _AT_ONCE], encoder, reference)
        found = np.vstack([found, np.hstack(read)])
        check_finite(found[-len(read.surface) :], job.settings.base)
        job.watch.step(len(found), len(pairs), None)
        if len(found) - saved >= _SAVE_EVERY:
            saved = _keep(file, found)
    _keep(file, found)
    if job.watch.stop_wanted:
        raise KeyboardInterrupt
    return PairFeatures(found[:, : len(COLUMNS)], found[:, len(COLUMNS) :])


@contextmanager
def room_kept(file: Path) -> Iterator[None]:
    """Turn a full disk into an error that says what was kept.

    Args:
        file: Where the rows that were read are kept.

    Raises:
        TrainingStoppedError: The disk, or a quota, is full.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError) as error:
        if not is_full_disk(error):
            raise
        left = (
            "what was read is kept: --resume continues from there"
            if file.is_file()
            else "nothing had been kept: start again"
        )
        raise TrainingStoppedError(
            f"the disk is full, or a limit on file sizes is reached ({file.parent.parent}); {left}"
        ) from error


def _batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, len(texts), _TEXTS):
        yield texts[first : first + _TEXTS]


def _empty(dimension: int) -> Array:
    return np.zeros((0, len(COLUMNS) + 2 * dimension))


def _kept(file: Path, dimension: int) -> Array:
    """Return the rows that were read; none where the file is missing, broken or of another form."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found: Array = load_file(file)["rows"]
    except (OSError, KeyError, SafetensorError):
        return _empty(dimension)
    return found if found.shape[1:] == _empty(dimension).shape[1:] else _empty(dimension)


def _keep(file: Path, rows: Array) -> int:
    """Write the rows, whole or not at all; return how many there are."""
    from safetensors.numpy import save_file

    file.parent.mkdir(parents=True, exist_ok=True)
    with room_kept(file), replacing(file) as draft:
        save_file({"rows": np.ascontiguousarray(rows)}, draft)
    return len(rows)


def check_finite(rows: Array, base: str) -> None:
    """Check that what an encoder gives are numbers.

    Raises:
        TrainingStoppedError: They are not.
    """
    if not np.isfinite(rows).all():
        raise TrainingStoppedError(
            f"the encoder {base} gives vectors that are not finite: name another as base"
        )
