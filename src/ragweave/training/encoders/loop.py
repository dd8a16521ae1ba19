"""A plain torch training for small models of our own: steps, checkpoints, and when to stop.

What transformers' trainer does for cross-encoders, for models that are no transformers model: the
same names of checkpoints, the same errors, and a resumed training that equals an undisturbed one.
A checkpoint is written whole or not at all, and read without running pickled code.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from ragweave.tools.files import parse_json, replacing_folder
from ragweave.training.job import Settings, TrainingStoppedError, Watch
from ragweave.training.trainer.arguments import computes_bfloat16, device_of
from ragweave.training.trainer.checkpoints import (
    drop_broken,
    memory_needed,
    newest,
    not_finite,
    room_needed,
)

_MODEL, _REST, _STATE = "model.safetensors", "state.pt", "trainer_state.json"


def write_checkpoint(
    folder: Path, model: Any, optimizer: Any, history: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write `checkpoint-STEP`, and remove the other checkpoints beside it.

    Args:
        folder: The checkpoint; its name says the step.
        model: The torch module.
        optimizer: Its optimizer.
        history: Measures by epoch.
    """
    import torch
    from safetensors.torch import save_model

    with replacing_folder(folder) as draft:
        save_model(model, str(draft / _MODEL))
        torch.save({"optimizer": optimizer.state_dict(), "random": _random()}, draft / _REST)
        state = {"global_step": _step(folder), "history": history}
        (draft / _STATE).write_text(json.dumps(state), encoding="utf-8")
    for other in folder.parent.glob("checkpoint-*"):
        if other != folder:
            shutil.rmtree(other)


def read_checkpoint(
    folder: Path, model: Any, optimizer: Any
) -> tuple[int, dict[str, Mapping[str, Any]]]:
    """Put a checkpoint into model, optimizer and random numbers; return step and history."""
    import torch
    from safetensors.torch import load_model

    load_model(model, str(folder / _MODEL))
    rest = torch.load(folder / _REST, map_location="cpu", weights_only=True)
    optimizer.load_state_dict(rest["optimizer"])
    torch.set_rng_state(rest["random"]["cpu"])
    torch.cuda.set_rng_state_all(rest["random"]["cuda"][: torch.cuda.device_count()])
    state = parse_json((folder / _STATE).read_text(encoding="utf-8"))
    return int(state["global_step"]), dict(state["history"])


def _random() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])


Item = TypeVar("Item")

_CLIP = 1.0
"""Longest gradient."""
_SPREAD = (0.8, 1.25)
"""How far lengths are stretched by chance, so that each epoch has other batches."""


@dataclass(frozen=True, kw_only=True)
class TrainingTask(Generic[Item]):
    """What is learnt, and how."""

    model: Any
    """A torch module; its parameters are what is trained."""
    items: Sequence[Item]
    """What it learns from; their order is drawn anew each epoch."""
    loss: Callable[[Sequence[Item]], Any]
    """Gives the mean loss of some items, a torch scalar, computed with the model."""
    settings: Settings
    groups: Sequence[Mapping[str, Any]] | None = None
    """AdamW's parameter groups, each with its own highest `lr` if it has one; None: one group."""
    length: Callable[[Item], float] | None = None
    """An item's length: those of like length then make a batch, so that little is padding."""
    measure: Callable[[], Mapping[str, Any] | None] = lambda: None
    """Measures at an epoch's end; None where there is nothing to measure, or when interrupted."""


def run_training(
    task: TrainingTask[Item], checkpoints: Path, watch: Watch, *, resume: bool = False
) -> dict[str, Mapping[str, Any]]:
    """Train a model where it stands; return the measures by epoch.

    Args:
        task: What is learnt, and how.
        checkpoints: Folder of the checkpoints; the newest alone is kept.
        watch: Follows the training.
        resume: Whether to resume from the newest whole checkpoint.

    Raises:
        TrainingStoppedError: Loss or gradient is not finite, or disk or GPU memory is full; the
            last good checkpoint is kept and named.
        KeyboardInterrupt: `watch.stop_wanted` became true; a checkpoint was saved, or is as it was.
    """
    checkpoints.mkdir(parents=True, exist_ok=True)
    drop_broken(checkpoints)
    with memory_needed(checkpoints), room_needed(checkpoints):
        training = _TrainingRun(task, checkpoints, watch)
        last = newest(checkpoints) if resume else None
        if last is not None:
            training.step, training.history = read_checkpoint(last, task.model, training.optimizer)
        training.run()
    return training.history


def total_steps(items: int, settings: Settings) -> int:
    """Return the steps of a training; a last, incomplete batch is a step too."""
    return max(1, round(settings.epochs * _epoch_steps(items, settings)))


def rate(step: int, total: int, warmup: float) -> float:
    """Return the share of the highest learning rate in a step, from 0: up in a line, then down."""
    rising = warmup * total
    if step < rising:
        return (step + 1) / (rising + 1)
    return max(0.0, (total - step) / max(1.0, total - rising))


class _TrainingRun(Generic[Item]):
    def __init__(self, task: TrainingTask[Item], checkpoints: Path, watch: Watch) -> None:
        import torch

        self._task, self._checkpoints, self._watch = task, checkpoints, watch
        self._settings = task.settings
        self._device = device_of(task.settings)
        self._total = total_steps(len(task.items), task.settings)
        task.model.to(self._device)
        self.optimizer = torch.optim.AdamW(
            [dict(one) for one in task.groups or [{"params": task.model.parameters()}]],
            lr=task.settings.learning_rate,
            weight_decay=task.settings.weight_decay,
        )
        self._rates = [group["lr"] for group in self.optimizer.param_groups]
        self.step = 0
        self.history: dict[str, Mapping[str, Any]] = {}

    def run(self) -> None:
        """Go through the steps that are left."""
        each = _epoch_steps(len(self._task.items), self._settings)
        self._measure_stopped(each)
        while self.step < self._total:
            epoch, index = divmod(self.step, each)
            for batch in list(_batches(self._task, epoch))[index:]:
                loss = self._advance(batch)
                self.step += 1
                self._watch.step(self.step, self._total, loss)
                ended = self._has_ended(each)
                if ended and not self._watch.stop_wanted:
                    self._measure(self.step / each)
                if ended or self._watch.stop_wanted or not self.step % self._settings.save_every:
                    self._save()
                if self._watch.stop_wanted:
                    raise KeyboardInterrupt
                if self.step == self._total:
                    return

    def _advance(self, batch: Sequence[Item]) -> float:
        """Take one step; the weights never take in a value that is not finite."""
        import torch

        self._task.model.train()
        self.optimizer.zero_grad()
        total, micro = 0.0, self._settings.micro_batch
        for first in range(0, len(batch), micro):
            some = batch[first : first + micro]
            with torch.autocast(
                self._device, torch.bfloat16, enabled=computes_bfloat16(self._settings)
            ):
                loss = self._task.loss(some) * (len(some) / len(batch))
            if not bool(torch.isfinite(loss)):
                raise self._not_finite("loss")
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self._task.model.parameters(), _CLIP)
        if not bool(torch.isfinite(norm)):
            raise self._not_finite("gradient")
        share = rate(self.step, self._total, self._settings.warmup)
        for group, highest in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = highest * share
        self.optimizer.step()
        return total

    def _has_ended(self, each: int) -> bool:
        return self.step % each == 0 or self.step == self._total

    def _measure_stopped(self, each: int) -> None:
        """Measure an epoch that was stopped in its last step, or while it was measured."""
        epoch = self.step / each
        if not self.step or not self._has_ended(each) or f"{epoch:g}" in self.history:
            return
        self._measure(epoch)
        if self._watch.stop_wanted and f"{epoch:g}" not in self.history:
            raise KeyboardInterrupt

    def _measure(self, epoch: float) -> None:
        found = self._task.measure()
        if found:
            self.history[f"{epoch:g}"] = found
            line = ", ".join(f"{name.replace('_', ' ')} {one:.4g}" for name, one in found.items())
            self._watch.say(f"epoch {epoch:g}: {line}")

    def _save(self) -> None:
        made = self._checkpoints / f"checkpoint-{self.step}"
        with room_needed(self._checkpoints, made):
            write_checkpoint(made, self._task.model, self.optimizer, self.history)

    def _not_finite(self, what: str) -> TrainingStoppedError:
        return not_finite(what, f"in step {self.step + 1}", self._checkpoints)


def _epoch_steps(items: int, settings: Settings) -> int:
    return max(1, -(-items // settings.batch))


def _batches(task: TrainingTask[Item], epoch: int) -> Iterator[list[Item]]:
    """Yield an epoch's batches, in an order that seed and epoch alone decide."""
    order, size = list(task.items), task.settings.batch
    draw = random.Random(f"{task.settings.seed} {epoch}")
    draw.shuffle(order)
    if task.length is not None:
        spread = [task.length(one) * draw.uniform(*_SPREAD) for one in order]
        order = [order[index] for index in sorted(range(len(order)), key=spread.__getitem__)]
    batches = [order[first : first + size] for first in range(0, len(order), size)]
    if task.length is not None:
        draw.shuffle(batches)
    yield from batches
