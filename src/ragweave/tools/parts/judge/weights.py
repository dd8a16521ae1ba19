"""What a linear judge has learnt, and the two files that hold it: safetensors and JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ragweave.errors import ModelError
from ragweave.tools.files import replacing, write_atomic
from ragweave.tools.parts.judge.reading import COLUMNS, Read
from ragweave.tools.parts.judge.reference import Array, Reference

WEIGHTS, ABOUT = "judge.safetensors", "judge.json"

_MOMENTS = ("question_mean", "question_cov", "name_mean", "name_cov")


@dataclass(frozen=True)
class LinearWeights:
    """Weights of the surface columns and of the vectors, a bias, and what is usual."""

    surface: Array
    """(len(COLUMNS),)"""
    meaning: Array
    """(2d,)"""
    bias: float
    reference: Reference

    def logits(self, read: Read) -> Array:
        """Return the logit of each row, calibrated: its sigmoid is the probability of known."""
        total: Array = read.surface @ self.surface + read.meaning @ self.meaning + self.bias
        return total


def write_weights(folder: Path, weights: LinearWeights) -> None:
    """Write a judge's weights into its folder, beside the names of what they weigh."""
    from safetensors.numpy import save_file

    arrays = {
        "surface": weights.surface,
        "meaning": weights.meaning,
        "bias": np.array([weights.bias]),
        **{name: getattr(weights.reference, name) for name in _MOMENTS},
    }
    plain = {name: np.ascontiguousarray(one, dtype=np.float64) for name, one in arrays.items()}
    with replacing(folder / WEIGHTS) as draft:
        save_file(plain, draft)
    about = {"columns": list(COLUMNS), "dimension": len(weights.meaning) // 2}
    write_atomic(folder / ABOUT, json.dumps(about, indent=2) + "\n")


def read_weights(folder: Path, dimension: int) -> LinearWeights:
    """Read a judge's weights.

    Args:
        folder: The part's folder.
        dimension: Length of the encoder's vectors.

    Raises:
        ModelError: They are missing, damaged, or were learnt with another encoder or of other
            features than this version reads.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        found: dict[str, Any] = load_file(folder / WEIGHTS)
    except (OSError, ValueError, SafetensorError) as error:
        message = " ".join(str(error).split())[:200]
        raise ModelError(f"{folder}: its weights can't be read ({message})") from error
    if not isinstance(about, dict) or about.get("columns") != list(COLUMNS):
        raise ModelError(
            f"{folder}: weighs other features than this ragweave reads: train it again"
        )
    if about.get("dimension") != dimension:
        raise ModelError(
            f"{folder}: was trained on vectors of {about.get('dimension')} numbers, and its base "
            f"model gives {dimension}"
        )
    _check(folder, found, dimension)
    return LinearWeights(
        found["surface"],
        found["meaning"],
        float(found["bias"][0]),
        Reference(*(found[name] for name in _MOMENTS)),
    )


def _check(folder: Path, found: dict[str, Any], dimension: int) -> None:
    shapes = {
        "surface": (len(COLUMNS),),
        "meaning": (2 * dimension,),
        "bias": (1,),
        **dict.fromkeys(("question_mean", "name_mean"), (dimension,)),
        **dict.fromkeys(("question_cov", "name_cov"), (dimension, dimension)),
    }
    for name, shape in shapes.items():
        if name not in found or found[name].shape != shape or not np.isfinite(found[name]).all():
            raise ModelError(f"{folder}: its weights are not whole ({name})")
