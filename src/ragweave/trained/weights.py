"""Models and tokenizers from folders, without running any code that came with them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.files import parse_json
from ragweave.tools.scorers.huggingface import quiet

_SAFE = {"local_files_only": True, "trust_remote_code": False}
_ADAPTER_FILE = "adapter_config.json"
_ADAPTER = ("r", "lora_alpha", "lora_dropout", "target_modules", "use_rslora")
"""The entries used of `adapter_config.json`: others can name modules to import."""


def need_transformers(feature: str, extra: str, *more: str) -> None:
    """Check that transformers, torch and `more` are installed.

    Raises:
        MissingExtraError: One is not.
    """
    from importlib.util import find_spec

    if any(find_spec(name) is None for name in ("torch", "transformers", *more)):
        raise MissingExtraError(feature, extra)


def read_tokenizer(folder: Path) -> Any:
    """Read a folder's tokenizer; one without a padding token pads with its end token.

    Raises:
        ModelError: There is none, or it has no end token.
    """
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, **_SAFE)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder}: its tokenizer can't be read ({_line(error)})") from error
    if tokenizer.eos_token_id is None:
        raise ModelError(f"{folder}: its tokenizer has no end token, so its output could not end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def read_model(folder: Path, *, causal: bool, dtype: str) -> Any:
    """Read a folder's weights, from safetensors alone.

    Args:
        folder: The model's folder.
        causal: Whether to read a causal model; otherwise an encoder-decoder model.
        dtype: Number type, such as `float32`; `auto`: as the weights are stored.

    Raises:
        ModelError: It can't be read, is of the other kind, or lacks weights (what transformers ties
            to others or leaves out itself is not lacking).
        UsageError: Its configuration refers to code, or there are adapters beside it.
    """
    import transformers

    _check_config(folder)
    auto: Any = transformers.AutoModelForCausalLM if causal else transformers.AutoModelForSeq2SeqLM
    from safetensors import SafetensorError

    kind = "a causal" if causal else "an encoder-decoder"
    try:
        with quiet():
            model, loaded = auto.from_pretrained(
                folder,
                use_safetensors=True,
                dtype=_dtype(dtype),
                output_loading_info=True,
                **_SAFE,
            )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: can't be read as {kind} model ({_line(error)})") from error
    if missing := sorted(loaded["missing_keys"]):
        raise ModelError(
            f"{folder}: is not {kind} model, or its weights are incomplete "
            f"(no {', '.join(missing[:3])})"
        )
    return model


def with_adapter(model: Any, folder: Path) -> Any:
    """Put a folder's low-rank adapters over a base model.

    Raises:
        ModelError: The adapters can't be read, or do not match the base model.
    """
    from peft import LoraConfig, TaskType, set_peft_model_state_dict
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        adapter = parse_json((folder / _ADAPTER_FILE).read_text(encoding="utf-8"))
        if adapter.get("peft_type") != "LORA":
            raise ModelError(f"{folder}: has {adapter.get('peft_type')} adapters, not LORA ones")
        config = LoraConfig(
            task_type=TaskType.CAUSAL_LM,
            **{name: adapter[name] for name in _ADAPTER if name in adapter},
        )
        weights = load_file(folder / "adapter_model.safetensors")
        adapted = adapters_over(model, config)
        result: Any = set_peft_model_state_dict(adapted, weights)
    except (OSError, ValueError, TypeError, RuntimeError, SafetensorError) as error:
        raise ModelError(f"{folder}: its adapters can't be read ({_line(error)})") from error
    lost = [name for name in result.missing_keys if "lora_" in name] + result.unexpected_keys
    if lost:
        raise ModelError(f"{folder}: its adapters do not match the base model ({lost[0]})")
    return adapted


def adapters_over(model: Any, config: Any) -> Any:
    """Put new low-rank adapters over a model."""
    from peft import get_peft_model

    with warnings.catch_warnings():
        # peft 0.21 still asks for what transformers 5.2x renamed.
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated")
        return get_peft_model(model, config)


def greedy(model: Any, tokenizer: Any) -> Any:
    """Set a model to greedy decoding, whatever sampling its folder configures; return it."""
    import transformers

    config: Any = transformers.GenerationConfig
    before = model.generation_config
    start = before.decoder_start_token_id
    if start is None:
        start = getattr(model.config, "decoder_start_token_id", None)
    ends = _ids(before.eos_token_id) + _ids(tokenizer.eos_token_id)
    model.generation_config = config(
        do_sample=False,
        num_beams=1,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=list(dict.fromkeys(ends)),
        pad_token_id=tokenizer.pad_token_id,
        decoder_start_token_id=start,
    )
    return model


def best_device() -> str:
    """Return `cuda` where torch sees a GPU, otherwise `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def has_bfloat16(device: str) -> bool:
    """Return whether a device computes bfloat16 in hardware."""
    import torch

    return device.startswith("cuda") and torch.cuda.is_bf16_supported(including_emulation=False)


def check_device(name: str) -> None:
    """Check that torch has a device of this name here; `auto` is not looked at.

    Raises:
        UsageError: It has not.
    """
    if name == "auto":
        return
    import torch

    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise UsageError(f"device must be auto, cpu, cuda or cuda:N, not {name!r}") from error
    if device.type == "cuda":
        found = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= found:
            raise UsageError(f"device {name!r}: torch sees {found} CUDA devices on this machine")
        return
    try:
        torch.empty(1, device=device).tolist()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"device {name!r} can't be used here ({_line(error)})") from error


def check_dtype(name: str) -> None:
    """Check that weights can be read as numbers of this type; `auto` is not looked at.

    Raises:
        UsageError: They can't.
    """
    if name == "auto":
        return
    import torch

    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point:
        raise UsageError(f"dtype must be auto, float32, bfloat16 or float16, not {name!r}")


def _dtype(name: str) -> Any:
    import torch

    return name if name == "auto" else getattr(torch, name)


def check_no_adapter(folder: Path) -> None:
    """Refuse adapters beside a model: transformers would hand their whole configuration to peft.

    Raises:
        UsageError: There are some.
    """
    if (folder / _ADAPTER_FILE).exists():
        raise UsageError(
            f"{folder}: {_ADAPTER_FILE} asks for adapters, but a full model has none: remove it"
        )


def check_kernels(folder: Path, fields: Any) -> None:
    """Refuse kernels by hub name, however deep: transformers would fetch and run them.

    Args:
        folder: The model's folder, for the error's text.
        fields: What its config.json holds.

    Raises:
        UsageError: There is one.
    """
    inner = fields.values() if isinstance(fields, dict) else fields
    for one in inner if isinstance(fields, dict | list) else ():
        check_kernels(folder, one)
    for name, value in fields.items() if isinstance(fields, dict) else ():
        if "attn_implementation" in name and "/" in str(value):
            raise UsageError(f"{folder}: config.json refers to custom code ({name})")


def _check_config(folder: Path) -> None:
    """Refuse what would make transformers import or fetch code."""
    check_no_adapter(folder)
    try:
        fields = parse_json((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder}: its config.json can't be read ({_line(error)})") from error
    check_kernels(folder, fields)


def _ids(value: int | Sequence[int] | None) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
