"""Trained encoders: checking their folders, loading them, and running them by torch or ONNX.

A folder is checked before any library looks at it, so that loading runs no code that came with it.
A loaded encoder is a function from token ids to logits (`Run`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.files import parse_json
from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained.card import check_safe
from ragweave.trained.weights import best_device, check_kernels, check_no_adapter

WEIGHTS = "model.safetensors"
ONNX = "model.onnx"

_OWN = "sentence_transformers."
_ACTIVATIONS = "torch.nn.modules."


def check_encoder(folder: str | Path) -> None:
    """Check that a folder contains an encoder whose loading runs no code that came with it.

    Raises:
        UsageError: There are no weights, or something could run; the text names the file.
    """
    root = Path(folder)
    check_safe(root)
    check_configurations(root)
    if not (root / WEIGHTS).is_file():
        raise UsageError(f"{root}: has no {WEIGHTS}")


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
                f"{root}: modules.json names {name!r}, which is not a class of "
                "sentence-transformers"
            )
    for file in ("config.json", "config_sentence_transformers.json"):
        activation = _activation(root / file)
        if activation is not None and not activation.startswith(_ACTIVATIONS):
            raise UsageError(
                f"{root}: {file} names {activation!r}, which is not a torch activation"
            )
    check_kernels(root, _read(root / "config.json", {}))


def _classes(path: Path) -> list[str]:
    modules = _read(path, [])
    if not isinstance(modules, list) or not all(isinstance(one, dict) for one in modules):
        raise UsageError(f"{path}: is not a list of modules")
    return [str(one.get("type")) for one in modules]


def _activation(path: Path) -> str | None:
    """Return the class that a configuration names for the last step, if it names one."""
    fields = _read(path, {})
    if not isinstance(fields, dict):
        raise UsageError(f"{path}: is not a model configuration")
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
        return parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot be read ({type(error).__name__})") from error


Features = Mapping[str, NDArray[np.int64]]
"""`input_ids`, `attention_mask`, … of a batch, each (rows, tokens)."""

Run = Callable[[Features], NDArray[np.float32]]
"""Gives the logits of a batch, (rows,)."""

_FEATURE = "A trained encoder"


def load_tokenizer(folder: Path) -> Any:
    """Load an encoder's fast tokenizer.

    Raises:
        MissingExtraError: transformers is not installed.
        ModelError: It can't be read, or only a slow one exists.
    """
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise MissingExtraError(_FEATURE, "hf") from error
    try:
        tokenizer = AutoTokenizer.from_pretrained(
            str(folder), trust_remote_code=False, local_files_only=True
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(
            f"{folder}: its tokenizer cannot be read ({one_line_error(error)})"
        ) from error
    if not tokenizer.is_fast:
        raise ModelError(
            f"{folder}: its tokenizer gives no character offsets: a fast one (tokenizer.json) is "
            "needed"
        )
    return tokenizer


def load_torch_model(folder: Path) -> Any:
    """Load the encoder and its head as a torch module that gives `logits` of one label.

    Raises:
        MissingExtraError: transformers or torch is not installed.
        ModelError: The weights can't be read or are incomplete, or have more than one label.
    """
    model = read_encoder(folder, "AutoModelForSequenceClassification")
    if model.config.num_labels != 1:
        raise ModelError(f"{folder}: has {model.config.num_labels} labels instead of one")
    return model.eval()


def read_encoder(folder: Path, auto: str, *, new: str | None = None) -> Any:
    """Read an encoder's weights, from safetensors only, by one of transformers' auto classes.

    Args:
        folder: The model's folder.
        auto: Name of the class.
        new: Prefix of the names of weights that the folder may lack.

    Raises:
        MissingExtraError: transformers or torch is not installed.
        ModelError: The weights can't be read or are incomplete.
    """
    try:
        import torch
        import transformers
        from safetensors import SafetensorError
    except ImportError as error:
        raise MissingExtraError(_FEATURE, "hf") from error
    with quiet():
        try:
            model, loaded = getattr(transformers, auto).from_pretrained(
                str(folder),
                trust_remote_code=False,
                use_safetensors=True,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(
                f"{folder}: its weights cannot be read ({one_line_error(error)})"
            ) from error
    missing = sorted(
        one for one in loaded["missing_keys"] if new is None or not one.startswith(new)
    )
    if missing:
        raise ModelError(f"{folder}: its weights are incomplete (no {', '.join(missing[:3])})")
    return model


def torch_run(folder: Path, device: str) -> Run:
    """Return a function that runs the torch weights on a device (errors as `load_torch_model`).

    Raises:
        UsageError: There is no such device.
    """
    model = load_torch_model(folder)
    import torch

    try:
        return model_run(model.to(torch.device(best_device() if device == "auto" else device)))
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"device {device!r} is not available ({one_line_error(error)})") from error


def model_run(model: Any) -> Run:
    """Return a function that runs a torch model on its device; it may be trained in between."""
    import torch

    def run(features: Features) -> NDArray[np.float32]:
        device = model.eval().device
        with torch.inference_mode():
            inputs = {name: torch.from_numpy(one).to(device) for name, one in features.items()}
            logits: NDArray[np.float32] = model(**inputs).logits[:, 0].float().cpu().numpy()
        return logits

    return run


def onnx_run(file: Path) -> Run:
    """Return a function that runs an ONNX file on the CPU.

    Raises:
        MissingExtraError: onnxruntime is not installed.
        ModelError: It can't be read.
    """
    try:
        import onnxruntime
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime
    except ImportError as error:
        raise MissingExtraError("The ONNX form of a part", "train") from error
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(
            str(file), settings, providers=["CPUExecutionProvider"]
        )
    except (
        runtime.Fail,
        runtime.InvalidArgument,
        runtime.InvalidGraph,
        runtime.InvalidProtobuf,
        runtime.NoSuchFile,
        runtime.NotImplemented,
        runtime.RuntimeException,
    ) as error:
        raise ModelError(f"{file}: cannot be read ({one_line_error(error)})") from error
    names = [one.name for one in session.get_inputs()]

    def run(features: Features) -> NDArray[np.float32]:
        (logits,) = session.run(None, {name: features[name] for name in names})
        found: NDArray[np.float32] = logits[:, 0]
        return found

    return run


def one_line_error(error: BaseException) -> str:
    """Return an error's text on one line, cut where it is long."""
    return " ".join(str(error).split())[:200]
