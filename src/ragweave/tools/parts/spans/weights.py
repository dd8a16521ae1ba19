"""A span encoder's folder: weights (safetensors), the encoder's configuration, the tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragweave.errors import MissingExtraError, ModelError
from ragweave.tools.parts.encoder_files import WEIGHTS, check_encoder
from ragweave.tools.parts.encoder_run import in_short, read_encoder
from ragweave.tools.scorers.local import quiet

if TYPE_CHECKING:
    from ragweave.tools.parts.spans.model import SpanEncoder

KIND = "span-encoder"


def new_model(base: Path, dropout: float) -> SpanEncoder:
    """Return an encoder's weights under a new head.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ModelError: The weights can't be read or are not whole.
    """
    encoder = read_encoder(base, "AutoModel", new="pooler")

    from ragweave.tools.parts.spans.model import SpanEncoder

    return SpanEncoder(encoder, dropout)


def read_model(folder: Path, dropout: float = 0.0) -> SpanEncoder:
    """Return a trained span encoder; nothing in the folder is run.

    Raises:
        UsageError: Something in the folder could run, or there are no weights.
        MissingExtraError: torch or transformers is not installed.
        ModelError: The weights can't be read, or are not a span encoder's.
    """
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from transformers import AutoConfig, AutoModel

        from ragweave.tools.parts.spans.model import SpanEncoder
    except ImportError as error:
        raise MissingExtraError("A trained span encoder", "hf") from error
    check_encoder(folder)
    with quiet():
        try:
            config = AutoConfig.from_pretrained(
                str(folder), trust_remote_code=False, local_files_only=True
            )
            architecture: Any = AutoModel
            model = SpanEncoder(architecture.from_config(config, trust_remote_code=False), dropout)
            model.load_state_dict(load_file(folder / WEIGHTS))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{folder}: its weights cannot be read ({in_short(error)})") from error
    return model.float().eval()


def write_model(folder: Path, model: SpanEncoder, tokenizer: Any) -> None:
    """Write a span encoder; the tokenizer's `model_max_length` is the most tokens of a window."""
    from safetensors.torch import save_model

    model.encoder.config.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    save_model(model, str(folder / WEIGHTS))
