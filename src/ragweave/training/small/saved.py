"""A checkpoint of the plain training: written whole or not at all, read without pickles' code."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragweave.tools.files import replacing_folder

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
    if rest["random"]["cuda"]:
        torch.cuda.set_rng_state_all(rest["random"]["cuda"])
    state = json.loads((folder / _STATE).read_text(encoding="utf-8"))
    return int(state["global_step"]), dict(state["history"])


def _random() -> dict[str, Any]:
    import torch

    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda}


def _step(folder: Path) -> int:
    return int(folder.name.rpartition("-")[2])
