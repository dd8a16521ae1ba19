"""Reading the rows of a linear part with its encoder, and keeping what was read.

It is nearly all the time that the training takes; what was read stands under the checkpoints, so
that a stopped training reads no row twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.files import is_full_disk, replacing
from ragweave.training.job import CHECKPOINTS, Job, TrainingStoppedError

KEPT = "read.safetensors"
"""What was read, under the checkpoints."""

Rows = Mapping[str, NDArray[Any]]
"""What was read, by name. The first array has one entry a row; each array goes on along its first
axis, whether with one entry a row or with several."""

_SAVE_EVERY = 512
"""Rows between two times that what was read is kept."""
_MARK = "mark"
"""Key of what the rows were read with, in the metadata of what was read."""


def read_once(
    job: Job, count: int, at_once: int, read: Callable[[slice], Rows], blank: Rows, mark: str = ""
) -> Rows:
    """Read all rows, in order; what a resumed job has read already is kept.

    Args:
        job: The job; its watch is told of each step.
        count: How many rows there are.
        at_once: How many are read in a step.
        read: Reads a slice of them.
        blank: No rows, in the form that `read` gives.
        mark: Tells what else they are read with; rows that were read with something else are read
            again.

    Raises:
        KeyboardInterrupt: Somebody wants to stop; what was read is kept.
        TrainingStoppedError: The encoder's vectors are not finite, or the disk is full.
    """
    file = job.folder / CHECKPOINTS / KEPT
    parts = [_kept(file, blank, mark) if job.resume else blank]
    done = saved = _size(parts[0])
    while done < count and not job.watch.stop_wanted:
        part = read(slice(done, min(done + at_once, count)))
        _check_finite(part, job.settings.base)
        parts.append(part)
        done += _size(part)
        job.watch.step(done, count, None)
        if done - saved >= _SAVE_EVERY:
            parts = [_joined(parts)]
            saved = _keep(file, parts[0], mark)
    found = _joined(parts)
    if done > saved:
        _keep(file, found, mark)
    if job.watch.stop_wanted:
        raise KeyboardInterrupt
    return found


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


def _size(rows: Rows) -> int:
    return len(next(iter(rows.values())))


def _joined(parts: Sequence[Rows]) -> Rows:
    """Return the parts as one; each call copies all that was read."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _kept(file: Path, blank: Rows, mark: str) -> Rows:
    """Return the rows that were read; none where the file is missing, broken or of another form."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as stream:
            told = stream.metadata() or {}
            found = {name: stream.get_tensor(name) for name in blank}
    except (OSError, SafetensorError):
        return blank
    same = all(found[name].shape[1:] == one.shape[1:] for name, one in blank.items())
    return found if same and told.get(_MARK, "") == mark else blank


def _keep(file: Path, rows: Rows, mark: str) -> int:
    """Write the rows, whole or not at all; return how many there are."""
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(one) for name, one in rows.items()}
    file.parent.mkdir(parents=True, exist_ok=True)
    with room_kept(file), replacing(file) as draft:
        save_file(arrays, draft, {_MARK: mark})
    return _size(rows)


def _check_finite(rows: Rows, base: str) -> None:
    if not all(np.isfinite(one).all() for one in rows.values()):
        raise TrainingStoppedError(
            f"the encoder {base} gives vectors that are not finite: name another as base"
        )
