"""What a folder with a trained encoder may hold: checked before any library looks at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragweave.errors import UsageError
from ragweave.tools.parts.safe import check_safe
from ragweave.tools.parts.weights import check_kernels, check_no_adapter

WEIGHTS = "model.safetensors"
ONNX = "model.onnx"

_OWN = "sentence_transformers."
_ACTIVATIONS = "torch.nn.modules."


def check_encoder(folder: str | Path) -> None:
    """Check that a folder holds an encoder whose loading runs no code that came with it.

    Raises:
        UsageError: There are no weights, or something could run; the text names the file.
    """
    root = Path(folder)
    check_safe(root)
    check_configurations(root)
    if not (root / WEIGHTS).is_file():
        raise UsageError(f"{root}: no {WEIGHTS} in it")


def check_configurations(folder: str | Path) -> None:
    """Check that an encoder's configurations name nothing that is imported or fetched.

    No class outside sentence-transformers and torch may be named (sentence-transformers before 6
    imports whatever a local folder names), no kernels, and no adapters: theirs can name modules.

    Raises:
        UsageError: One does; the text names the file.
    """
    root = Path(folder)
    check_no_adapter(root)
    for name in _classes(root / "modules.json"):
        if not name.startswith(_OWN):
            raise UsageError(
                f"{root}: modules.json names {name!r}, which is no class of sentence-transformers"
            )
    for file in ("config.json", "config_sentence_transformers.json"):
        activation = _activation(root / file)
        if activation is not None and not activation.startswith(_ACTIVATIONS):
            raise UsageError(
                f"{root}: {file} names {activation!r}, which is no activation of torch"
            )
    check_kernels(root, _read(root / "config.json", {}))


def _classes(path: Path) -> list[str]:
    modules = _read(path, [])
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise UsageError(f"{path}: is no list of modules")
    return [str(one.get("type")) for one in modules]


def _activation(path: Path) -> str | None:
    """Return the class that a configuration names for the last step, if it names one."""
    fields = _read(path, {})
    if not isinstance(fields, dict):
        raise UsageError(f"{path}: is no configuration")
    inner = fields.get("sentence_transformers")
    for holder in (fields, inner if isinstance(inner, dict) else {}):
        for name in ("activation_fn", "sbert_ce_default_activation_function"):
            if holder.get(name) is not None:
                return str(holder[name])
    return None


def _read(path: Path, default: Any) -> Any:
    if not path.is_file():
        return default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error
