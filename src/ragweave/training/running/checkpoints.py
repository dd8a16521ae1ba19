"""Checkpoints of a training: which is whole, and which is the newest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

_STATE = "trainer_state.json"
"""Written last: a checkpoint without it, or with half of it, was never finished."""


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


def _is_whole(checkpoint: Path) -> bool:
    try:
        state = json.loads((checkpoint / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(state.get("global_step") == step_of(checkpoint))
