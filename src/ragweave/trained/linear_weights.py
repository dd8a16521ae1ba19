"""The files of a linear part: its weights in safetensors, and in JSON what they apply to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragweave.errors import ModelError
from ragweave.tools.files import parse_json, replacing, write_atomic
from ragweave.trained.judge_reading import Array


def write_arrays(
    folder: Path, name: str, arrays: Mapping[str, Array], columns: Sequence[str], dimension: int
) -> None:
    """Write a part's weights into its folder, and the names of the features they apply to.

    One writer at a time.

    Args:
        folder: The part's folder.
        name: Name of the two files, without their endings.
        arrays: The weights.
        columns: Names of the features.
        dimension: Length of the encoder's vectors.
    """
    from safetensors.numpy import save_file

    plain = {key: np.ascontiguousarray(one, dtype=np.float64) for key, one in arrays.items()}
    with replacing(folder / f"{name}.safetensors", alone=True) as draft:
        save_file(plain, draft)
    about = {"columns": list(columns), "dimension": dimension}
    write_atomic(folder / f"{name}.json", json.dumps(about, indent=2) + "\n", alone=True)


def read_arrays(
    folder: Path,
    name: str,
    columns: Sequence[str],
    dimension: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> dict[str, Any]:
    """Read what `write_arrays` wrote: arrays of `shapes`, all numbers finite.

    Raises:
        ModelError: They are missing, damaged, or were learnt with another encoder or from other
            features than this version computes.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        about = parse_json((folder / f"{name}.json").read_text(encoding="utf-8"))
        found: dict[str, Any] = load_file(folder / f"{name}.safetensors")
    except (OSError, ValueError, SafetensorError) as error:
        message = " ".join(str(error).split())[:200]
        raise ModelError(f"{folder}: its weights can't be read ({message})") from error
    if not isinstance(about, dict) or about.get("columns") != list(columns):
        raise ModelError(
            f"{folder}: was trained on other features than this ragweave computes: train it again"
        )
    if about.get("dimension") != dimension:
        raise ModelError(
            f"{folder}: was trained on vectors of {about.get('dimension')} dimensions, but its "
            f"base model gives {dimension}"
        )
    for key, shape in shapes.items():
        if key not in found or found[key].shape != shape or not np.isfinite(found[key]).all():
            raise ModelError(f"{folder}: its weights are incomplete ({key})")
    return found
