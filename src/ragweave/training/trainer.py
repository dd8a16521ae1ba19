"""Running a trainer of transformers: arguments, Ctrl-C, resuming.

On several GPUs: `accelerate launch --multi_gpu -m ragweave train …`. `batch` counts the rows of a step on all GPUs.
"""

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
    """Return whether the GPU, or the CPU if there is none, computes bfloat16 in hardware."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    capabilities: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # torch 2.10 and later
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def one_gpu(args: Any) -> Any:
    """Limit a process to one GPU: with more, DataParallel would multiply the batch."""
    if args.n_gpu > 1:
        args._n_gpu = 1
    return args


class _Interrupt(TrainerCallback):
    """Saves a checkpoint and ends the training after the step on the first Ctrl-C; ends it at once on the second."""

    pressed = False

    def press(self, *_: object) -> None:
        """Handle the signal."""
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = True

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:  # noqa: ARG002 - transformers'
        """Save and stop, if Ctrl-C was pressed."""
        if self.pressed:
            control.should_save = control.should_training_stop = True


def run(trainer: Any, job: Job) -> None:
    """Run a trainer, from the last checkpoint if the job resumes.

    The trained model then computes in its own precision, as the loaded component does, not in the training's bfloat16: the
    measures and the threshold hold for the component in use.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed; a checkpoint was saved.
    """
    trainer.remove_callback(PrinterCallback)
    folder = job.folder / CHECKPOINTS
    last = get_last_checkpoint(str(folder)) if job.resume else None  # type: ignore[no-untyped-call]
    interrupt = _Interrupt()
    trainer.add_callback(interrupt)
    is_main = threading.current_thread() is threading.main_thread()  # only this thread may handle signals
    before = signal.signal(signal.SIGINT, interrupt.press) if is_main else None
    try:
        trainer.train(resume_from_checkpoint=last)
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)
    if interrupt.pressed and trainer.state.global_step < trainer.state.max_steps:
        raise KeyboardInterrupt
    trainer.accelerator.unwrap_model(trainer.model, keep_fp32_wrapper=False)
