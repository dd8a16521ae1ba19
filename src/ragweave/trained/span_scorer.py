"""The span encoder: a filter that reads a passage once and scores every sentence of it (ours).

Its folder contains the weights (safetensors), the encoder's configuration and the tokenizer.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragweave.errors import MissingExtraError, ModelError, UsageError
from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained.encoders import (
    WEIGHTS,
    check_encoder,
    load_tokenizer,
    one_line_error,
    read_encoder,
)
from ragweave.trained.pairs import token_limit
from ragweave.trained.span_reading import Read, Reader, Sheet
from ragweave.trained.weights import best_device

if TYPE_CHECKING:
    from ragweave.trained.span_network import SpanEncoder


KIND = "span-encoder"


def new_model(base: Path, dropout: float) -> SpanEncoder:
    """Return an encoder's weights under a new head.

    Raises:
        MissingExtraError: torch or transformers is not installed.
        ModelError: The weights can't be read or are incomplete.
    """
    encoder = read_encoder(base, "AutoModel", new="pooler")

    from ragweave.trained.span_network import SpanEncoder

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

        from ragweave.trained.span_network import SpanEncoder
    except ImportError as error:
        raise MissingExtraError("A trained span encoder", "hf") from error
    check_encoder(folder)
    with quiet():
        try:
            config = AutoConfig.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
            architecture: Any = AutoModel
            model = SpanEncoder(architecture.from_config(config, trust_remote_code=False), dropout)
            model.load_state_dict(load_file(folder / WEIGHTS))
        except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
            raise ModelError(f"{folder}: its weights cannot be read ({one_line_error(error)})") from error
    return model.float().eval()


def write_model(folder: Path, model: SpanEncoder, tokenizer: Any) -> None:
    """Write a span encoder; the tokenizer's `model_max_length` is the most tokens of a window."""
    from safetensors.torch import save_model

    model.encoder.config.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))
    save_model(model, str(folder / WEIGHTS))


_WINDOWS = 16
"""Windows computed at once."""


class SpanScorer:
    """Scores the sentences of passages; calls from several threads take turns."""

    def __init__(self, tokenizer: Any, model: SpanEncoder) -> None:
        """Take a fast tokenizer, whose `model_max_length` is the limit of a window, and a network."""
        self._tokenizer, self._model = tokenizer, model
        self._reader = Reader(tokenizer, token_limit(tokenizer))
        self._lock = threading.RLock()

    def logits(self, sheets: Sequence[Sheet]) -> list[list[float]]:
        """Return the logits of each sheet's sentences, in order.

        Their softmax over a sheet gives each sentence's share.
        """
        with self._lock:
            return self.logits_of([self._reader.read(one) for one in sheets])

    def logits_of(self, reads: Sequence[Read]) -> list[list[float]]:
        """Return the logits of sheets that were read before."""
        import torch

        from ragweave.trained.span_network import batch_of, groups_of

        found: list[list[float]] = [[] for _ in reads]
        filler = self._tokenizer.pad_token_id or 0
        with self._lock, torch.inference_mode():
            self._model.eval()
            for group in groups_of(reads, _WINDOWS):
                some = [reads[index] for index in group]
                scores = self._model(batch_of(some, filler)).sentences.float().cpu()
                parts = scores.split([len(one.features) for one in some])
                for index, part in zip(group, parts, strict=True):
                    found[index] = part.tolist()
        return found


def load_span_scorer(folder: str | Path, device: str = "auto") -> SpanScorer:
    """Load a trained span encoder; nothing in the folder is run.

    Args:
        folder: The part's folder.
        device: `auto` (CUDA where there is one), `cpu`, `cuda`, `cuda:1`.

    Raises:
        UsageError: Something in the folder could run, or weights or device are missing.
        MissingExtraError: What it runs with is not installed.
        ModelError: Weights or tokenizer can't be read.
    """
    root = Path(folder)
    model = read_model(root)
    import torch

    try:
        model.to(torch.device(best_device() if device == "auto" else device))
    except (RuntimeError, AssertionError) as error:
        reason = one_line_error(error)
        raise UsageError(f"device {device!r} is not available ({reason})") from error
    return SpanScorer(load_tokenizer(root), model)


def relative(logits: Sequence[float]) -> list[float]:
    """Return each sentence's share over the best one's, in (0, 1]."""
    most = max(logits, default=0.0)
    return [math.exp(one - most) for one in logits]
