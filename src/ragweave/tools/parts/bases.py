"""Base models on this machine, by path or by hub name; nothing is downloaded."""

from __future__ import annotations

from pathlib import Path

from ragweave.errors import ModelError


def find_base_model(name: str, near: Path | None = None) -> Path:
    """Return the folder of a base model: a local path, or what the hub's cache holds.

    Nothing is downloaded.

    Args:
        name: A folder's path or a hub name.
        near: A folder that a relative path may start from too.

    Raises:
        ModelError: It is not here; the text says what to download and where to put it.
    """
    places = [Path(name).expanduser(), *([near / name] if near else [])]
    for place in places:
        if (place / "config.json").is_file():
            return place
    from huggingface_hub import constants, snapshot_download

    try:
        found = Path(snapshot_download(name, local_files_only=True))
    except (OSError, ValueError) as error:
        raise _missing(name, Path(constants.HF_HUB_CACHE)) from error
    if not (found / "config.json").is_file():
        raise _missing(name, Path(constants.HF_HUB_CACHE))
    return found


def _missing(name: str, cache: Path) -> ModelError:
    if name.startswith(("/", ".", "~")) or name.count("/") > 1:
        return ModelError(f"the base model {name} is not there: no folder with a config.json")
    return ModelError(
        f"the base model {name} is not on this machine: `hf download {name}` puts it into {cache} "
        f"(HF_HOME moves that), or give the path of a folder with its config.json, tokenizer and "
        f"safetensors"
    )
