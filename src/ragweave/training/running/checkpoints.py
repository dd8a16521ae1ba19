"""Checkpoints of a training: which is whole, and what a full disk leaves."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

_STATE = "trainer_state.json"
"""Written last: a checkpoint without it, or with half of it, was never finished."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_SIGNS = (
    "no space left",
    "disk quota exceeded",
    "file too large",
    "pytorchstreamwriter failed",
    "iostream error",
    "unexpected pos",
    "(os error 28)",
    "(os error 27)",
    "(os error 122)",
)


def step_of(checkpoint: Path) -> int:
    """Return the step that a checkpoint was saved after."""
    number = checkpoint.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def newest(folder: Path) -> Path | None:
    """Return the newest whole checkpoint, or None."""
    whole = [one for one in folder.glob("checkpoint-*") if _is_whole(one)]
    return max(whole, key=step_of, default=None)


def drop_broken(folder: Path) -> None:
    """Remove checkpoints that were never finished."""
    for one in folder.glob("checkpoint-*"):
        if not _is_whole(one):
            shutil.rmtree(one)


def kept(folder: Path) -> str:
    """Say which checkpoint is left, for an error's text."""
    last = newest(folder)
    if last is None:
        return "no checkpoint had been saved"
    return f"the last good checkpoint is {last}; --resume goes on from it"


def is_full_disk(fault: BaseException) -> bool:
    """Tell whether a write failed because the disk, or a quota, is full.

    torch and safetensors raise errors of their own, which say so in their text alone.
    """
    if isinstance(fault, OSError) and fault.errno in _FULL:
        return True
    text = str(fault).lower()
    return any(sign in text for sign in _FULL_SIGNS)


def _is_whole(checkpoint: Path) -> bool:
    try:
        state = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(state.get("global_step") == step_of(checkpoint))
