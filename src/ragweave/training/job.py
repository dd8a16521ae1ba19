"""What a training is given and what it gives: settings, rows, threshold and measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ragweave.tools.trained.card import Role
from ragweave.training.rows import Row

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
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


# ---- thresholds and measures of components that score

_ROUNDING = 1 - 1e-4
"""Scores differ in their last bits from batch to batch."""


def auc(scores: Array, labels: Flags) -> float:
    """Return the area under the ROC curve: how often a right one scores above a wrong one; ties count half."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels, scores)) if labels.any() and not labels.all() else 0.5


def best_balanced(chances: Array, labels: Flags) -> float:
    """Return the threshold with the best mean of both classes' accuracies, between two scores; 0.5 of no rows."""
    if labels.all() or not labels.any():
        return 0.5
    scores = np.unique(chances)
    cuts = np.concatenate([scores[:1] / 2, (scores[:-1] + scores[1:]) / 2])
    worth = [
        (labels & (chances > cut)).sum() / labels.sum() + (~labels & (chances <= cut)).sum() / (~labels).sum()
        for cut in cuts
    ]
    return float(cuts[int(np.argmax(worth))])


def judged(chances: Array, labels: Flags, threshold: float) -> dict[str, float]:
    """Return a judge's accuracy, that of the larger class, and AUC; {} of no rows."""
    if not len(labels):
        return {}
    share = float(labels.mean())
    accuracy = float(((chances > threshold) == labels).mean())
    return {"accuracy": accuracy, "larger_class": max(share, 1 - share), "auc": auc(chances, labels)}


def recall_threshold(scores: Sequence[Sequence[float]], keep: Sequence[Sequence[bool]], recall: float) -> float:
    """Return the highest threshold at which the mean recall of the sentences to keep is `recall`; 0.5 of no rows.

    Args:
        scores: Of each question's sentences.
        keep: Which are to be kept, at least one of each question.
        recall: In [0, 1].
    """
    found = sorted(
        (
            (score, 1 / sum(own) / len(keep))
            for each, own in zip(scores, keep, strict=True)
            for score, one in zip(each, own, strict=True)
            if one
        ),
        reverse=True,
    )
    reached, least = 0.0, 0.5
    for score, weight in found:
        reached, least = reached + weight, score * _ROUNDING
        if reached >= recall - 1e-9:
            break
    return least


def filtered(
    scores: Sequence[Sequence[float]], keep: Sequence[Sequence[bool]], sizes: Sequence[Sequence[int]], threshold: float
) -> dict[str, float]:
    """Return how often the best sentence, or one of the best two, is to be kept, and what the threshold keeps.

    Args:
        scores: Of each question's sentences.
        keep: Which are to be kept, at least one of each question.
        sizes: Words of each sentence.
        threshold: Sentences at or above it are kept.

    Returns:
        `first`, `in_two`; mean `recall` and `precision` of sentences; `words_kept`, a share. {} of no rows.
    """
    rows = [
        _filtered(np.asarray(s), np.asarray(k), np.asarray(w), threshold)
        for s, k, w in zip(scores, keep, sizes, strict=True)
    ]
    names = ("first", "in_two", "recall", "precision", "words_kept")
    return dict(zip(names, map(float, np.mean(rows, axis=0)), strict=True)) if rows else {}


def _filtered(scores: Array, keep: Flags, sizes: NDArray[np.int_], threshold: float) -> list[float]:
    best = np.argsort(-scores, kind="stable")[:2]
    taken = scores >= threshold * (1 - 1e-9)
    hits = (taken & keep).sum()
    return [
        keep[best[0]],
        keep[best].any(),
        hits / keep.sum(),
        hits / max(taken.sum(), 1),
        sizes[taken].sum() / sizes.sum(),
    ]
