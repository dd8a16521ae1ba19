"""What a training takes and returns: settings, rows, threshold and measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ragweave.tools.trained.card import Kind, TrainedRole
from ragweave.training.rows import LabelledRow

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
CHECKPOINTS = "checkpoints"
"""Folder of checkpoints in a component's folder while it is trained."""


class TrainSettings(BaseModel):
    """Settings of every training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = "minilm"
    """The model that training starts from: `minilm` (packaged), a folder, or the name of a model in the hub's cache."""
    held_out: float = Field(0.1, ge=0, lt=1)
    """Share of the questions held out to choose the threshold and to measure."""
    seed: int = 0
    """Seed of the rows' order and of new weights."""


class LinearSettings(TrainSettings):
    """Settings of linear judges and routers."""

    folds: int = Field(5, ge=2)
    """Folds of the questions, to choose the threshold on rows outside the fitted folds."""
    drafts: bool = True
    """Whether the draft answer is read too; false: only the question, as in Adaptive-RAG's classifier."""


class RouterSettings(LinearSettings):
    """Settings of routers."""

    retrieve_at_most: float = Field(0.6, gt=0, le=1)
    """Maximum share of the questions that the threshold may retrieve for."""


class NeuralSettings(TrainSettings):
    """Settings of neural trainings."""

    epochs: float = Field(3.0, gt=0)
    """Number of times that each row is seen."""
    learning_rate: float = Field(3e-5, gt=0)
    """Maximum learning rate."""
    batch: int = Field(16, ge=1)
    """Rows per step."""
    micro_batch: int = Field(16, ge=1)
    """Rows in memory at once; fewer take less memory and more time."""
    max_input: int = Field(1024, ge=1)
    """Maximum tokens read."""
    warmup: float = Field(0.1, ge=0)
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay of AdamW."""
    save_every: int = Field(200, ge=1)
    """Steps between checkpoints."""


class EncoderSettings(NeuralSettings):
    """Settings of bi-encoders."""

    epochs: float = Field(1.0, gt=0)
    learning_rate: float = Field(5e-5, gt=0)
    max_input: int = Field(256, ge=16)
    recall: float = Field(0.9, ge=0, le=1)
    """Recall of the sentences to keep that a filter's threshold must reach on held-out rows."""


class WriterSettings(NeuralSettings):
    """Settings of components that generate text: FILCO's (Wang et al. 2023, section 4.1 and appendix)."""

    base: str = "google/flan-t5-xl"
    learning_rate: float = Field(5e-5, gt=0)
    batch: int = Field(32, ge=1)
    micro_batch: int = Field(4, ge=1)
    max_output: int = Field(512, ge=1)
    """Maximum tokens written."""
    warmup: float = Field(0.0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    activation_checkpointing: bool = False
    """Whether activations are recomputed, which takes less memory and more time."""


class LoraSettings(WriterSettings):
    """Settings of causal models with adapters."""

    lora_rank: int = Field(16, ge=1)
    """Rank of the adapters."""
    lora_alpha: int = Field(32, ge=1)
    """Scale of the adapters."""
    lora_dropout: float = Field(0.05, ge=0, lt=1)
    """Dropout before the adapters."""


_KINDS: Mapping[Kind, type[TrainSettings]] = {
    "linear": LinearSettings,
    "bi-encoder": EncoderSettings,
    "seq2seq": WriterSettings,
    "causal-lora": LoraSettings,
}
_MAX_OUTPUT: Mapping[TrainedRole, int] = {"judge": 16, "rewriter": 512, "filter": 512, "generator": 128}


def settings_of(kind: Kind, role: TrainedRole, values: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of a kind in a role; `values` replace its defaults."""
    if kind == "linear":
        return (RouterSettings if role == "router" else LinearSettings)(**values)
    usual: dict[str, Any] = {}
    if kind in ("seq2seq", "causal-lora"):
        usual = {"max_output": _MAX_OUTPUT[role]}
        if kind == "causal-lora":
            usual["base"] = f"meta-llama/Llama-2-7b{'-chat' if role in ('judge', 'rewriter') else ''}-hf"
    return _KINDS[kind](**{**usual, **values})


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training."""

    role: TrainedRole
    train: list[LabelledRow]
    held_out: list[LabelledRow]
    settings: TrainSettings
    folder: Path
    """Where weights and tokenizer go."""
    resume: bool = False
    """Whether to resume from the last checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The result of a training."""

    metrics: Mapping[str, float] = field(default_factory=dict)
    """Measured on held-out rows."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the card, such as the threshold."""
    main: bool = True
    """Whether this process writes the card; one of several that train together does."""


# ---- thresholds and measures of components that score

_ROUNDING = 1 - 1e-4
"""Scores differ in their last bits from batch to batch."""


def auc(scores: Array, labels: Flags) -> float:
    """Return the area under the ROC curve: the probability that a right item scores above a wrong one; ties count half."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(labels.ravel(), scores.ravel())) if labels.any() and not labels.all() else 0.5


def best_balanced(chances: Array, labels: Flags) -> float:
    """Return the threshold with the best mean of both classes' accuracies, between two scores; 0.5 without both classes."""
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
    """Return a judge's accuracy, the share of the larger class, and AUC; {} without rows."""
    if not len(labels):
        return {}
    share = float(labels.mean())
    accuracy = float(((chances > threshold) == labels).mean())
    return {"accuracy": accuracy, "larger_class": max(share, 1 - share), "auc": auc(chances, labels)}


class Scored(NamedTuple):
    """The scored sentences of a question."""

    scores: Sequence[float]
    keep: Sequence[bool]
    sizes: Sequence[int]
    """Words of each sentence."""


def recall_threshold(rows: Sequence[Scored], recall: float) -> float:
    """Return the highest threshold at which the mean recall of the sentences to keep is `recall`; 0.5 without rows."""
    weighted = [
        (score, 1 / sum(row.keep)) for row in rows for score, keep in zip(row.scores, row.keep, strict=True) if keep
    ]
    reached, least = 0.0, 0.5
    for score, weight in sorted(weighted, reverse=True):
        reached, least = reached + weight / len(rows), score * _ROUNDING
        if reached >= recall - 1e-9:
            break
    return least


def filtered(rows: Sequence[Scored], threshold: float) -> dict[str, float]:
    """Return how well a filter ranks and keeps sentences.

    Returns:
        `first` and `in_two`: how often the best sentence, or one of the best two, is to be kept; mean `recall` and
        `precision` of the sentences at or above the threshold; `words_kept`, their share of the words. {} without rows.
    """
    measures = [
        _filtered(np.asarray(row.scores), np.asarray(row.keep), np.asarray(row.sizes), threshold) for row in rows
    ]
    names = ("first", "in_two", "recall", "precision", "words_kept")
    return dict(zip(names, map(float, np.mean(measures, axis=0)), strict=True)) if rows else {}


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


def measured(rows: Sequence[Scored], recall: float) -> tuple[dict[str, float], float]:
    """Return a filter's measures on held-out rows, and the threshold that they hold for."""
    mixed = [row for row in rows if any(row.keep) and not all(row.keep)]
    threshold = recall_threshold(mixed, recall)
    return filtered(mixed, threshold), threshold
