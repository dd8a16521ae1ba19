"""Several processes of one training (`accelerate launch -m ragweave train …`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any


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
