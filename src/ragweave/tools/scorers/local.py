"""Hugging Face models on this machine: found by path or hub name, loaded without chatter.

Nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

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


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers' bars, and its and sentence-transformers' warnings, off the screen."""
    theirs: Any = import_module("transformers.utils.logging")
    other = logging.getLogger("sentence_transformers")
    shown, level, other_level = (
        theirs.is_progress_bar_enabled(),
        theirs.get_verbosity(),
        other.level,
    )
    theirs.disable_progress_bar()
    theirs.set_verbosity_error()
    other.setLevel(logging.ERROR)
    try:
        yield
    finally:
        other.setLevel(other_level)
        theirs.set_verbosity(level)
        if shown:
            theirs.enable_progress_bar()
