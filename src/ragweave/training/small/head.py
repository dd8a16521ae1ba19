"""Writing a calibration into an encoder's head, so that its own probabilities are calibrated."""

from __future__ import annotations

from typing import Any

from ragweave.training.calibration import Platt


def has_head(model: Any) -> bool:
    """Tell whether a torch model ends in a linear layer with one output and a bias."""
    return _head(model) is not None


def write_calibration(model: Any, platt: Platt) -> None:
    """Change the last linear layer so that a logit z becomes `scale · z + shift`.

    Raises:
        ValueError: The model has no such layer (`has_head`).
    """
    import torch

    layer = _head(model)
    if layer is None:
        raise ValueError("no linear layer with one output and a bias")
    with torch.no_grad():
        layer.weight.mul_(platt.scale)
        layer.bias.mul_(platt.scale).add_(platt.shift)


def _head(model: Any) -> Any:
    import torch

    found = None
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear) and layer.out_features == 1:
            found = layer
    return found if found is not None and found.bias is not None else None
