"""The folder that a training writes: begun once, gone on with, finished, never mixed."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.parts import PartCard, is_part, write_card
from ragweave.training.job import CHECKPOINTS
from ragweave.training.readme import readme
from ragweave.training.running.guard import room_needed

_DRAFT = ".training.json.new"
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
        (folder / PLAN).unlink(missing_ok=True)
        shutil.rmtree(_aside(folder), ignore_errors=True)
        raise UsageError(f"{folder}: holds a trained part already; name another folder")
    if (folder / PLAN).is_file():
        _go_on(folder, plan, resume=resume)
        return
    if resume:
        raise UsageError(f"{folder}: holds no training to go on with")
    try:
        (folder / _DRAFT).unlink(missing_ok=True)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder}: is there already and is no training; name another folder")
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(plan, ensure_ascii=False, indent=2) + "\n"
        (folder / _DRAFT).write_text(text, encoding="utf-8")
        (folder / _DRAFT).replace(folder / PLAN)
    except OSError as fault:
        raise UsageError(f"{folder}: cannot be written ({fault.strerror})") from fault


def finish_folder(folder: Path, card: PartCard) -> None:
    """Write the model card, put the checkpoints aside, make the folder a part, and remove them.

    A folder with checkpoints, which hold pickles, is never a part; and until it is one, they stay.

    Raises:
        TrainingStoppedError: The disk is full.
    """
    with room_needed(folder / CHECKPOINTS):
        (folder / "README.md").write_text(readme(card), encoding="utf-8")
        if (folder / CHECKPOINTS).exists():
            (folder / CHECKPOINTS).replace(_aside(folder))
        write_card(folder, card)
    (folder / PLAN).unlink(missing_ok=True)
    if _aside(folder).exists():
        shutil.rmtree(_aside(folder))


def _aside(folder: Path) -> Path:
    """Return where checkpoints wait, beside the folder, while it becomes a part."""
    return folder.resolve().with_name(f".{folder.resolve().name}.{CHECKPOINTS}")


def abandon_folder(folder: Path) -> None:
    """Remove the folder of a training that saved nothing, so that another may begin there."""
    saved = folder / CHECKPOINTS
    with contextlib.suppress(OSError):  # not empty: something was saved, and stays
        saved.rmdir()
    if [one.name for one in folder.iterdir()] == [PLAN]:
        (folder / PLAN).unlink()
        folder.rmdir()


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
    if _aside(folder).exists() and not (folder / CHECKPOINTS).exists():
        _aside(folder).replace(folder / CHECKPOINTS)
    for name in [*begun, *wanted]:
        if begun.get(name) != wanted.get(name):
            raise UsageError(
                f"{folder}: was begun with other {name} ({_changed(begun, wanted, name)}); a "
                f"training goes on only as it began"
            )


def _changed(begun: Any, wanted: Any, name: str) -> str:
    """Say what of one entry of the plan differs."""
    before, now = begun.get(name), wanted.get(name)
    if isinstance(before, dict) and isinstance(now, dict):
        differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        return ", ".join(f"{key}: {before.get(key)}, now {now.get(key)}" for key in differing)
    return f"{before}, now {now}"
