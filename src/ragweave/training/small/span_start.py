"""What a span encoder begins from, and how fast each of its weights learns."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ragweave.errors import UsageError
from ragweave.evaluation.datasets.files import file_hash
from ragweave.tools.parts import is_part, read_card
from ragweave.tools.parts.card import CARD
from ragweave.tools.parts.spans.reading import Reader
from ragweave.tools.parts.spans.weights import KIND, new_model, read_model
from ragweave.training.running.arguments import device_of
from ragweave.training.small.base import encoder_base
from ragweave.training.small.span_settings import SpanSettings

if TYPE_CHECKING:
    from ragweave.tools.parts.spans.model import SpanEncoder

_LAYER = re.compile(r"\blayers?\.(\d+)\.")


class Start(NamedTuple):
    """Where a training begins."""

    reader: Reader
    path: Path
    """Folder of the encoder or of the part."""
    part: Mapping[str, Any] | None
    """Name and card's hash of the part that is gone on with; None: an encoder with a new head."""


def start_of(settings: SpanSettings) -> Start:
    """Find what a training begins from; only its tokenizer is loaded.

    Raises:
        UsageError: The base is a part of another kind, or no encoder.
        ModelError: It is not on this machine.
    """
    folder = Path(settings.base).expanduser()
    part = None
    if is_part(folder):
        card = read_card(folder, "filter")
        if card.kind != KIND:
            raise UsageError(f"{folder}: is a {card.kind}, and a {KIND} begins from its own kind")
        part = {"part": folder.resolve().name, "card_sha256": file_hash(folder / CARD)}
    base = encoder_base(settings.base, settings.max_input)
    return Start(Reader(base.tokenizer, base.limit), base.path, part)


def model_of(start: Start, settings: SpanSettings) -> SpanEncoder:
    """Load the network; a new head is drawn by the seed.

    Raises:
        ModelError: The weights can't be read.
    """
    import torch

    torch.manual_seed(settings.seed)
    if start.part is not None:
        return read_model(start.path, settings.dropout)
    return new_model(start.path, settings.dropout)


def quickest(settings: SpanSettings) -> SpanSettings:
    """Return the settings with `auto` precision settled: bfloat16 on CPUs that compute it too.

    With AVX-512 BF16 a step takes half the time of float32 (measured); without such instructions
    bfloat16 is slower.
    """
    if settings.precision != "auto" or device_of(settings) != "cpu":
        return settings
    import torch

    capabilities: dict[str, Any] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # torch 2.10 and later tell
    if capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"):
        return dataclasses.replace(settings, precision="bfloat16")
    return settings


def rates(model: SpanEncoder, settings: SpanSettings) -> list[dict[str, Any]]:
    """Return AdamW's parameter groups, and freeze what is not to learn.

    The head has its own rate, lower layers ever lower ones; biases and norms don't decay.
    """
    layers = int(model.encoder.config.num_hidden_layers)
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, value in model.named_parameters():
        found = _LAYER.search(name)
        # what lies under the first layer counts as one more layer
        depth = int(found[1]) if found else (-1 if "embed" in name else layers - 1)
        if (
            not name.startswith("head.")
            and depth < settings.frozen_layers
            and settings.frozen_layers
        ):
            value.requires_grad = False
            continue
        slower = settings.layer_decay ** (layers - 1 - depth)
        rate = settings.head_rate if name.startswith("head.") else settings.learning_rate * slower
        decay = settings.weight_decay if value.ndim > 1 else 0.0
        groups.setdefault((rate, decay), []).append(value)
    return [
        {"params": values, "lr": rate, "weight_decay": decay}
        for (rate, decay), values in groups.items()
    ]
