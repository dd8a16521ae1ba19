"""The folder that a training writes: begun once, gone on with, finished, never mixed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.parts import PartCard, is_part, write_card
from ragweave.training.job import CHECKPOINTS
from ragweave.training.readme import readme

PLAN = "training.json"
"""What is being trained: kind, settings, hashes of the data. Gone when the part is finished."""


def begin_folder(folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
    """Make the folder of a training ready.

    Args:
        folder: The part's folder.
        plan: What is trained, from what, how, in plain JSON values.
        resume: Whether to go on with the training that the folder holds.

    Raises:
        UsageError: The folder holds a finished part, another training, or something else; it
            can't be written; there is nothing to resume, or the plan has changed.
    """
    if is_part(folder):
        raise UsageError(f"{folder}: holds a trained part already; name another folder")
    if (folder / PLAN).is_file():
        _go_on(folder, plan, resume=resume)
        return
    if resume:
        raise UsageError(f"{folder}: holds no training to go on with")
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder}: is there already and is no training; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(plan, ensure_ascii=False, indent=2) + "\n"
        (folder / PLAN).write_text(text, encoding="utf-8")
    except OSError as fault:
        raise UsageError(f"{folder}: cannot be written ({fault.strerror})") from fault


def finish_folder(folder: Path, card: PartCard) -> None:
    """Write the model card, make the folder a part, and remove the checkpoints."""
    (folder / "README.md").write_text(readme(card), encoding="utf-8")
    write_card(folder, card)
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    (folder / PLAN).unlink(missing_ok=True)


def _go_on(folder: Path, plan: Mapping[str, Any], *, resume: bool) -> None:
    if not resume:
        raise UsageError(
            f"{folder}: holds an unfinished training: --resume goes on with it, or name another "
            f"folder"
        )
    try:
        begun = json.loads((folder / PLAN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise UsageError(f"{folder / PLAN}: cannot be read ({type(fault).__name__})") from fault
    wanted = json.loads(json.dumps(plan))
    for name in [*begun, *wanted]:
        if begun.get(name) != wanted.get(name):
            raise UsageError(
                f"{folder}: was begun with another {name} ({_changed(begun, wanted, name)}); a "
                f"training goes on only as it began"
            )


def _changed(begun: Any, wanted: Any, name: str) -> str:
    """Say what of one entry of the plan differs."""
    before, now = begun.get(name), wanted.get(name)
    if isinstance(before, dict) and isinstance(now, dict):
        differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{key}: {before.get(key)}, now {now.get(key)}" for key in differing)
    return f"{before}, now {now}"
