"""Our settings as the trainers of transformers and trl take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.parts.weights import best_device, has_bfloat16
from ragweave.training.running.processes import world_size
from ragweave.training.settings import Settings


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
        raise UsageError(f"device is {wanted}, and torch sees no GPU: take auto or cpu")
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
    """Return what both trainers are told; saving and measuring are ours (`looking.Looking`)."""
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
        _recomputing(): settings.gradient_checkpointing,
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


def _recomputing() -> str:
    """Return the name of the option that computes activations again; transformers 5 renamed it."""
    from transformers import TrainingArguments

    known = TrainingArguments.__dataclass_fields__
    new = "activation_checkpointing"
    return new if new in known else "gradient_checkpointing"
