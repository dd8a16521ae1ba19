"""What the training of a span encoder may be told beside the common settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ragweave.errors import UsageError
from ragweave.tools.parts import is_part
from ragweave.training.settings import Settings

FURTHER = {"epochs": 2.0, "learning_rate": 5e-5}
"""What is usual where a training begins from a trained span encoder."""

_SHARES = ("dropout", "recall", "every_weight")


@dataclass(frozen=True, kw_only=True)
class SpanSettings(Settings):
    """Settings of span encoders; from another span encoder: 2 epochs at 5e-5."""

    base: str = "minilm"
    """An encoder (`minilm`, a local path, a hub name), or the folder of a span encoder, whose
    encoder and head are gone on with."""
    epochs: float = 3.0
    """Times that each row is seen."""
    learning_rate: float = 1e-4
    """Highest learning rate of the encoder's last layer."""
    head_rate: float = 5e-4
    """Highest learning rate of the head."""
    layer_decay: float = 0.9
    """How much slower each layer learns than the one above it."""
    frozen_layers: int = 2
    """Lowest layers that don't learn, and with them the embeddings; 0: all learn."""
    batch: int = 16
    """Rows a step."""
    micro_batch: int = 16
    """Rows computed at once."""
    max_input: int = 256
    """Most tokens of a window."""
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.01
    """Decoupled weight decay of AdamW."""
    dropout: float = 0.1
    """Dropout in the head."""
    every_weight: float = 0.5
    """How much of the loss asks for every sentence to keep, rather than for any of them."""
    answer_weight: float = 0.5
    """Weight of finding the answer's tokens in the sentences to keep."""
    recall: float = 0.9
    """Recall of the sentences to keep that the threshold must reach on held-out rows."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        super().__post_init__()
        for name in _SHARES:
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} must be 0 to 1, not {getattr(self, name)}")
        if not 0 < self.layer_decay <= 1:
            raise UsageError(f"layer_decay must be above 0 and at most 1, not {self.layer_decay}")
        for name in ("frozen_layers", "answer_weight"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must be 0 or more, not {getattr(self, name)}")
        if self.head_rate <= 0:
            raise UsageError(f"head_rate must be above 0, not {self.head_rate}")

    def suited(self, given: Collection[str]) -> Self:
        """Return the settings; where the base is a trained part, fewer and smaller steps."""
        if not is_part(Path(self.base).expanduser()):
            return self
        usual: dict[str, Any] = {name: one for name, one in FURTHER.items() if name not in given}
        return dataclasses.replace(self, **usual)
