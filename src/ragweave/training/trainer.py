"""Running a trainer of transformers or sentence-transformers: arguments, Ctrl-C, resuming.

On several GPUs: `accelerate launch --multi_gpu -m ragweave train …`. `batch` is the rows of a step on all together.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint

from ragweave.training.job import CHECKPOINTS, Job, NeuralSettings


def arguments(settings: NeuralSettings, folder: Path, **more: Any) -> dict[str, Any]:
    """Return the arguments that all trainers share."""
    import torch

    share = max(1, settings.batch // int(os.environ.get("WORLD_SIZE", "1")))
    micro = min(settings.micro_batch, share)
    return {
        "output_dir": str(folder / CHECKPOINTS),
        "num_train_epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
        "warmup_steps": settings.warmup,
        "weight_decay": settings.weight_decay,
        "per_device_train_batch_size": micro,
        "gradient_accumulation_steps": max(1, share // micro),
        "bf16": has_bfloat16(),
        "use_cpu": has_bfloat16() and not torch.cuda.is_available(),
        "dataloader_pin_memory": torch.cuda.is_available(),
        "remove_unused_columns": False,
        "seed": settings.seed,
        "logging_steps": 10,
        "save_steps": settings.save_every,
        "save_total_limit": 1,
        "report_to": "none",
        "disable_tqdm": not sys.stderr.isatty(),
        **more,
    }


def has_bfloat16() -> bool:
    """Say whether the GPU, or without one the CPU, computes bfloat16 in hardware."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    found: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.10 and later
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def one_gpu(args: Any) -> Any:
    """Let a process use one GPU: more would be DataParallel, which multiplies the batch."""
    if args.n_gpu > 1:
        args._n_gpu = 1
    return args


class _SaveOnInterrupt(TrainerCallback):
    """Makes the first Ctrl-C save a checkpoint and end the training after the step."""

    def __init__(self) -> None:
        self.wanted = False

    def __enter__(self) -> None:
        self._main = threading.current_thread() is threading.main_thread()
        self._before = signal.signal(signal.SIGINT, self._note) if self._main else None

    def __exit__(self, *_: object) -> None:
        if self._main:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        if self.wanted:
            raise KeyboardInterrupt
        self.wanted = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - transformers'
        """Save and stop, if Ctrl-C was pressed."""
        if self.wanted:
            control.should_save = control.should_training_stop = True


def run(trainer: Any, job: Job) -> None:
    """Run a trainer, from the last checkpoint if the job is to be resumed.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; a checkpoint was saved.
    """
    trainer.remove_callback(PrinterCallback)
    folder = job.folder / CHECKPOINTS
    last = get_last_checkpoint(str(folder)) if job.resume else None  # type: ignore[no-untyped-call]
    interrupt = _SaveOnInterrupt()
    trainer.add_callback(interrupt)
    with interrupt:
        trainer.train(resume_from_checkpoint=last)
    if interrupt.wanted and trainer.state.global_step < trainer.state.max_steps:
        raise KeyboardInterrupt
