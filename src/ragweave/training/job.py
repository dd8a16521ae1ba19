"""What a training is given and what it gives: settings, rows, threshold and measures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ragweave.tools.trained.card import Role
from ragweave.training.rows import Row

CHECKPOINTS = "checkpoints"
"""Folder of checkpoints in a component's folder while it is trained."""


class Settings(BaseModel):
    """Settings of every training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = "minilm"
    """The model that training begins from: `minilm` (packaged), a folder or the name of a model in the hub's cache."""
    held_out: float = Field(0.1, ge=0, lt=1)
    """Share of the questions held out to choose the threshold and to measure."""
    seed: int = 0
    """Seed of order and new weights."""


class NeuralSettings(Settings):
    """Settings of trainings in steps."""

    epochs: float = Field(3.0, gt=0)
    """Times that each row is seen."""
    learning_rate: float = Field(3e-5, gt=0)
    """Highest learning rate."""
    batch: int = Field(16, ge=1)
    """Rows in a step."""
    micro_batch: int = Field(16, ge=1)
    """Rows in memory at once; less takes less memory and more time."""
    max_input: int = Field(256, ge=1)
    """Most tokens read."""
    warmup: float = Field(0.1, ge=0)
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay of AdamW."""
    save_every: int = Field(200, ge=1)
    """Steps between checkpoints."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training."""

    role: Role
    train: list[Row]
    held_out: list[Row]
    settings: Settings
    folder: Path
    """Where weights and tokenizer go."""
    resume: bool = False
    """Whether to go on from the last checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a training came to."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Measured on held-out rows."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the card, such as the threshold."""
    main: bool = True
    """Whether this process writes the card; of several that train together, one does."""
