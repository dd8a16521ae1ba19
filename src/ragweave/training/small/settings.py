"""What the training of a small part may be told beside the common settings."""

from __future__ import annotations

from dataclasses import dataclass

from ragweave.errors import UsageError
from ragweave.training.settings import Settings


@dataclass(frozen=True, kw_only=True)
class SmallSettings(Settings):
    """Settings of small parts."""

    base: str = "minilm"
    """An encoder: `minilm` (packaged), a local path, or a hub name in the hub's cache."""
    learning_rate: float = 3e-5
    """Highest learning rate."""
    batch: int = 16
    """Pairs a step."""
    micro_batch: int = 16
    """Pairs computed at once."""
    max_input: int = 256
    """Most tokens of a pair."""
    warmup: float = 0.1
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = 0.01
    """Decoupled weight decay of AdamW."""
    balance: bool = True
    """Whether both classes weigh the same, however many pairs each has."""
    hard_negatives: float = 1.0
    """How much more a filter's negative weighs that shares the most words with the question; 0:
    all weigh the same."""
    recall: float = 0.0
    """Recall of the sentences to keep that a filter's threshold must reach on held-out rows; 0:
    the threshold with the best F1."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range.
        """
        super().__post_init__()
        if self.hard_negatives < 0:
            raise UsageError(f"hard_negatives must be 0 or more, not {self.hard_negatives}")
        if not 0 <= self.recall <= 1:
            raise UsageError(f"recall must be 0 to 1, not {self.recall}")
