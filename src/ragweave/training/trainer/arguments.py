"""What the trainers of transformers and trl are given: arguments, and callbacks between steps.

The callbacks report progress, save checkpoints, measure, and stop on request. Several processes
may share a training (`accelerate launch -m ragweave train …`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.trained.weights import best_device, has_bfloat16
from ragweave.training.job import Settings, Watch


def rank() -> int:
    """Return this process's number, from 0, as the launcher set it."""
    return int(os.environ.get("RANK") or 0)


def world_size() -> int:
    """Return how many processes train together."""
    return int(os.environ.get("WORLD_SIZE") or 1)


def is_main() -> bool:
    """Tell whether this process is the one that writes and shows."""
    return rank() == 0


def _joined() -> bool:
    import torch.distributed as dist

    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def any_process(flag: bool) -> bool:
    """Tell whether `flag` is true in any process; all must ask."""
    if not _joined():
        return flag
    import torch
    import torch.distributed as dist

    device = "cuda" if dist.get_backend() == "nccl" else "cpu"
    flags = torch.tensor([int(flag)], device=device)
    dist.all_reduce(flags, op=dist.ReduceOp.MAX)
    return bool(flags.item())


def share(items: Sequence[Any]) -> Sequence[Any]:
    """Return this process's share of `items`."""
    return items[rank() :: world_size()] if _joined() else items


def gathered(mine: Sequence[Any]) -> list[Any]:
    """Return the results of all processes, in no order that matters; all must ask."""
    if not _joined():
        return list(mine)
    import torch.distributed as dist

    parts: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(parts, list(mine))
    return [one for part in parts for one in part]


def device_of(settings: Settings) -> str:
    """Return `cpu` or `cuda`.

    Raises:
        UsageError: A GPU is asked for that is not there, or a certain one of several.
    """
    import torch

    wanted = settings.device
    if wanted == "auto":
        return best_device()
    if wanted == "cpu":
        return wanted
    if wanted not in ("cuda", "cuda:0"):
        raise UsageError(
            f"device must be auto, cpu or cuda, not {wanted}: CUDA_VISIBLE_DEVICES chooses among "
            f"several GPUs"
        )
    if not torch.cuda.is_available():
        raise UsageError(f"device is {wanted}, but torch sees no GPU: use auto or cpu")
    return "cuda"


def computes_bfloat16(settings: Settings) -> bool:
    """Tell whether a training computes in bfloat16; `auto` does where the hardware has it."""
    if settings.precision == "auto":
        return has_bfloat16(device_of(settings))
    return settings.precision == "bfloat16"


def rows_at_once(settings: Settings) -> tuple[int, int]:
    """Return rows a micro-batch and micro-batches a step, on each process.

    All processes' rows together make the batch, exactly where it divides: a micro-batch holds the
    most rows up to `micro_batch` that divide a process's share.
    """
    mine = -(-settings.batch // world_size())
    micro = next(n for n in range(min(settings.micro_batch, mine), 0, -1) if mine % n == 0)
    return micro, mine // micro


def arguments(settings: Settings, checkpoints: Path) -> dict[str, Any]:
    """Return both trainers' arguments; saving and measuring are done by `TrainingCallbacks`."""
    device = device_of(settings)
    micro, accumulate = rows_at_once(settings)
    return {
        "output_dir": str(checkpoints),
        "num_train_epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": accumulate,
        recomputing(): settings.gradient_checkpointing,
        "bf16": computes_bfloat16(settings),
        "use_cpu": device == "cpu",
        "dataloader_pin_memory": device != "cpu",
        "ddp_find_unused_parameters": False,
        "remove_unused_columns": False,
        "seed": settings.seed,
        "data_seed": settings.seed,
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",
        "save_total_limit": 1,
        "eval_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }


def one_gpu(args: Any) -> Any:
    """Keep a trainer's arguments to one GPU a process; return them.

    More would be transformers' DataParallel, which is slow, untested, and multiplies the batch. A
    trainer reads the number when it is made.
    """
    if args.n_gpu > 1:
        args._n_gpu = 1
    return args


def recomputing() -> str:
    """Return the name of the option that computes activations again; transformers 5 renamed it."""
    from transformers import TrainingArguments

    known = TrainingArguments.__dataclass_fields__
    new = "activation_checkpointing"
    return new if new in known else "gradient_checkpointing"


def recompute(encoder: Any) -> None:
    """Let a transformers model compute its activations again instead of keeping them.

    Raises:
        UsageError: It can't.
    """
    enable = getattr(encoder, f"{recomputing()}_enable")
    try:
        enable({"use_reentrant": False})  # the other way learns nothing above frozen layers
    except ValueError as error:
        raise UsageError(
            f"a {encoder.config.model_type} is trained without gradient_checkpointing: leave it out"
        ) from error


Measure = Callable[[], Mapping[str, Any] | None]

HELD_OUT = "held_out"
"""Key of the measures in the trainer's history, which checkpoints keep."""


class TrainingCallbacks:
    """Follows a trainer's steps; `callback` is what the trainer takes."""

    def __init__(self, watch: Watch, save_every: int, measure: Measure) -> None:
        """Begin.

        Args:
            watch: Follows the training.
            save_every: Steps between checkpoints.
            measure: Measures on the held-out rows; None where there are none, or when interrupted.
        """
        self.stopped = False
        """Whether a stop was requested; a checkpoint has been saved then."""
        self._watch, self._save_every, self._measure = watch, save_every, measure

    def callback(self) -> Any:
        """Return the callback of transformers' trainers."""
        from transformers import TrainerCallback

        callbacks = self

        class Callback(TrainerCallback):
            def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.began(cpu=args.use_cpu)
                callbacks.resumed(state)

            def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.logged(state, control, more.get("logs") or {})

            def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.stepped(state, control)

            def on_epoch_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:  # noqa: ARG002
                callbacks.ended_epoch(state, control)

        return Callback()

    def began(self, *, cpu: bool) -> None:
        """Report GPUs that are left unused (`one_gpu`)."""
        import torch

        if not cpu and world_size() == 1 and torch.cuda.device_count() > 1:
            self._watch.say(
                "one GPU is used; `accelerate launch -m ragweave train …` uses them all"
            )

    def resumed(self, state: Any) -> None:
        """Measure an epoch that was stopped in its last step, or while it was measured.

        Raises:
            KeyboardInterrupt: A stop is requested again; the checkpoint is as it was.
        """
        ended = float(state.epoch or 0).is_integer() or state.global_step >= state.max_steps
        if not state.global_step or not ended or _name(state.epoch) in history(state):
            return
        if not self._measure_epoch(state) and any_process(self._watch.stop_wanted):
            raise KeyboardInterrupt

    def logged(self, state: Any, control: Any, logs: Mapping[str, Any]) -> None:
        """Report the last step's loss; stop where requested. Trainers log before they save."""
        if "loss" not in logs:
            return
        if is_main():
            self._watch.step(state.global_step, state.max_steps, float(logs["loss"]))
        if any_process(self._watch.stop_wanted):
            self.stopped = control.should_training_stop = control.should_save = True

    def stepped(self, state: Any, control: Any) -> None:
        """Save where a checkpoint is due; an epoch's last step is saved at the epoch's end."""
        if state.global_step % self._save_every == 0 and not float(state.epoch).is_integer():
            control.should_save = state.global_step < state.max_steps

    def ended_epoch(self, state: Any, control: Any) -> None:
        """Measure, and save with the measures."""
        if self.stopped:
            return
        self._measure_epoch(state)
        if any_process(self._watch.stop_wanted):
            self.stopped = control.should_training_stop = True
        control.should_save = True

    def _measure_epoch(self, state: Any) -> bool:
        """Measure and report; return whether there are measures, the same in all processes."""
        measured = self._measure()
        if not measured:
            return False
        state.log_history.append(
            {"step": state.global_step, "epoch": state.epoch, HELD_OUT: measured}
        )
        if is_main():
            self._watch.say(f"epoch {_name(state.epoch)}: {_line(measured)}")
        return True


def history(state: Any) -> dict[str, Mapping[str, Any]]:
    """Return the measures by epoch."""
    return {  # in the order that a checkpoint keeps, resumed or not
        _name(one["epoch"]): dict(sorted(one[HELD_OUT].items()))
        for one in state.log_history
        if HELD_OUT in one
    }


def _name(epoch: float) -> str:
    return f"{epoch:g}"


def _line(measured: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.4g}"
        for name, value in measured.items()
        if isinstance(value, float)
    )
