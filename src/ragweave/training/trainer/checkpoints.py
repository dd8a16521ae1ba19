"""Checkpoints of a training, and a trainer that stops before it damages them.

It stops where a loss or weight is not finite, and where disk or GPU memory is full.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragweave.tools.files import is_full_disk, parse_json
from ragweave.training.job import TrainingStoppedError
from ragweave.training.trainer.arguments import any_process

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
    return f"the last good checkpoint is {last}; --resume continues from it"


def _is_whole(checkpoint: Path) -> bool:
    try:
        state = parse_json((checkpoint / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(state.get("global_step") == step_of(checkpoint))


def guarded(trainer: Any, checkpoints: Path) -> Any:
    """Return a subclass of a trainer that raises `TrainingStoppedError` in good time."""
    import torch

    class Guarded(trainer):  # type: ignore[misc]
        def training_step(self, *args: Any, **more: Any) -> Any:
            """Compute loss and gradients; stop before the weights take in a value not finite."""
            loss = super().training_step(*args, **more)
            if any_process(not bool(torch.isfinite(loss).all())):
                raise not_finite("loss", f"after step {self.state.global_step + 1}", checkpoints)
            return loss

        def _save_checkpoint(self, *args: Any, **more: Any) -> None:
            step = self.state.global_step
            for name, weight in self.model.named_parameters():
                if weight.requires_grad and not bool(torch.isfinite(weight).all()):
                    raise not_finite(f"weight {name}", f"after step {step}", checkpoints)
            with room_needed(checkpoints, checkpoints / f"checkpoint-{step}"):
                super()._save_checkpoint(*args, **more)

    return Guarded


@contextlib.contextmanager
def room_needed(checkpoints: Path, written: Path | None = None) -> Iterator[None]:
    """Turn a full disk's many errors into one; what was written of `written` is removed.

    Raises:
        TrainingStoppedError: The disk, or a quota, is full.
    """
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if not is_full_disk(error):
            raise
        if written is not None:
            shutil.rmtree(written, ignore_errors=True)
        raise TrainingStoppedError(
            f"the disk is full, or a limit on file sizes is reached "
            f"({written or checkpoints.parent}); {kept(checkpoints)}"
        ) from error


@contextlib.contextmanager
def memory_needed(checkpoints: Path) -> Iterator[None]:
    """Turn a GPU's lack of memory into an error that says what helps.

    Raises:
        TrainingStoppedError: The GPU's memory is full.
    """
    import torch

    try:
        yield
    except torch.OutOfMemoryError as error:
        # what is learnt depends on max_input: a training that is resumed keeps its own
        lower = "micro_batch" if newest(checkpoints) else "micro_batch or max_input"
        raise TrainingStoppedError(
            f"this training does not fit into the GPU's memory: lower {lower}, or set "
            f"gradient_checkpointing=true; {kept(checkpoints)}"
        ) from error


def not_finite(what: str, when: str, checkpoints: Path) -> TrainingStoppedError:
    """Return the error of a training that met a number that is not finite.

    Args:
        what: The loss, the gradient, or a weight by name.
        when: The step, such as "in step 5".
        checkpoints: Folder of the checkpoints.
    """
    # resumed, a training keeps the settings that led there
    again, so = (
        ("again in another --out", " with the same settings")
        if newest(checkpoints)
        else ("again", "")
    )
    return TrainingStoppedError(
        f"the {what} is not finite {when}: start {again} with a lower learning_rate or a warmup, or "
        f"check the rows; {kept(checkpoints)}{so}"
    )
