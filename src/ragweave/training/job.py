"""What a training is given and what it gives: settings, rows, threshold and measures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ragweave.tools.trained.card import CARD, Kind, TrainedRole
from ragweave.training.rows import Row

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
CHECKPOINTS = "checkpoints"
"""Folder of checkpoints in a component's folder while it is trained."""


class TrainSettings(BaseModel):
    """Settings of every training."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = "minilm"
    """The model that training begins from: `minilm` (packaged), a folder or the name of a model in the hub's cache."""
    held_out: float = Field(0.1, ge=0, lt=1)
    """Share of the questions held out to choose the threshold and to measure."""
    seed: int = 0
    """Seed of order and new weights."""


class LinearSettings(TrainSettings):
    """Settings of linear judges and routers."""

    folds: int = Field(5, ge=2)
    """Folds of the questions, to choose the threshold on rows that were not fitted on."""
    drafts: bool = True
    """Whether the draft answer is read too; false: the question alone, as Adaptive-RAG's classifier does."""


class RouterSettings(LinearSettings):
    """Settings of routers."""

    retrieve_at_most: float = Field(0.6, gt=0, le=1)
    """Greatest share of the questions that the threshold may retrieve for."""


class NeuralSettings(TrainSettings):
    """Settings of trainings in steps."""

    epochs: float = Field(3.0, gt=0)
    """Times that each row is seen."""
    learning_rate: float = Field(3e-5, gt=0)
    """Highest learning rate."""
    batch: int = Field(16, ge=1)
    """Rows in a step."""
    micro_batch: int = Field(16, ge=1)
    """Rows in memory at once; less takes less memory and more time."""
    max_input: int = Field(1024, ge=1)
    """Most tokens read."""
    warmup: float = Field(0.1, ge=0)
    """Share of the steps in which the learning rate rises."""
    weight_decay: float = Field(0.01, ge=0)
    """Decoupled weight decay of AdamW."""
    save_every: int = Field(200, ge=1)
    """Steps between checkpoints."""


class EncoderSettings(NeuralSettings):
    """Settings of cross-encoders and span encoders."""

    max_input: int = Field(256, ge=16)
    recall: float = Field(0.9, ge=0, le=1)
    """Recall of the sentences to keep that a filter's threshold must reach on held-out rows."""


class WriterSettings(NeuralSettings):
    """Settings of components that write: FILCO's (Wang et al. 2023, section 4.1 and appendix)."""

    base: str = "google/flan-t5-xl"
    learning_rate: float = Field(5e-5, gt=0)
    batch: int = Field(32, ge=1)
    micro_batch: int = Field(4, ge=1)
    max_output: int = Field(512, ge=1)
    """Most tokens written."""
    warmup: float = Field(0.0, ge=0)
    weight_decay: float = Field(0.0, ge=0)
    activation_checkpointing: bool = False
    """Whether activations are computed again, which takes less memory and more time."""


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
    "span-encoder": EncoderSettings,
    "cross-encoder": EncoderSettings,
    "seq2seq": WriterSettings,
    "causal-lora": LoraSettings,
}
_MAX_OUTPUT: Mapping[TrainedRole, int] = {"judge": 16, "rewriter": 512, "filter": 512, "generator": 128}


def settings_of(kind: Kind, role: TrainedRole, given: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of a kind in a role, with those given."""
    if kind == "linear":
        return (RouterSettings if role == "router" else LinearSettings)(**given)
    usual: dict[str, Any] = {}
    if kind == "span-encoder":
        further = (Path(str(given.get("base", ""))).expanduser() / CARD).is_file()  # a trained one, trained further
        usual = {"epochs": 2.0, "learning_rate": 5e-5} if further else {"learning_rate": 1e-4}
    elif kind in ("seq2seq", "causal-lora"):
        usual = {"max_output": _MAX_OUTPUT[role]}
        if kind == "causal-lora":
            usual["base"] = f"meta-llama/Llama-2-7b{'-chat' if role in ('judge', 'rewriter') else ''}-hf"
    return _KINDS[kind](**{**usual, **given})


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training."""

    role: TrainedRole
    train: list[Row]
    held_out: list[Row]
    settings: TrainSettings
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

    return float(roc_auc_score(labels.ravel(), scores.ravel())) if labels.any() and not labels.all() else 0.5


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


class Scored(NamedTuple):
    """The sentences of a question, of which some are to be kept and some are not."""

    scores: Sequence[float]
    keep: Sequence[bool]
    sizes: Sequence[int]
    """Words of each."""


def recall_threshold(rows: Sequence[Scored], recall: float) -> float:
    """Return the highest threshold at which the mean recall of the sentences to keep is `recall`; 0.5 of no rows."""
    found = [
        (score, 1 / sum(one.keep)) for one in rows for score, kept in zip(one.scores, one.keep, strict=True) if kept
    ]
    reached, least = 0.0, 0.5
    for score, weight in sorted(found, reverse=True):
        reached, least = reached + weight / len(rows), score * _ROUNDING
        if reached >= recall - 1e-9:
            break
    return least


def filtered(rows: Sequence[Scored], threshold: float) -> dict[str, float]:
    """Return how often the best sentence, or one of the best two, is to be kept, and what the threshold keeps.

    Returns:
        `first`, `in_two`; mean `recall` and `precision` of sentences at or above the threshold; `words_kept`, a share.
        {} of no rows.
    """
    found = [_filtered(np.asarray(one.scores), np.asarray(one.keep), np.asarray(one.sizes), threshold) for one in rows]
    names = ("first", "in_two", "recall", "precision", "words_kept")
    return dict(zip(names, map(float, np.mean(found, axis=0)), strict=True)) if rows else {}


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
    """Return a filter's measures on held-out rows, and the threshold that they are for."""
    mixed = [one for one in rows if any(one.keep) and not all(one.keep)]
    threshold = recall_threshold(mixed, recall)
    return filtered(mixed, threshold), threshold
