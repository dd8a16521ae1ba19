"""Training of cross-encoders (`tools/trained/networks.py`) by sentence-transformers' trainer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from pydantic import Field
from sentence_transformers.cross_encoder import CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss
from transformers import set_seed

from datasets import Dataset
from ragweave.errors import UsageError
from ragweave.tools.models.huggingface import model_folder
from ragweave.tools.trained.card import Role
from ragweave.tools.trained.forms import sentence_pairs
from ragweave.tools.trained.networks import PairScorer, cross_encoder
from ragweave.training.job import Job, NeuralSettings, Trained
from ragweave.training.measures import best_balanced, filtered, judged, recall_threshold
from ragweave.training.rows import FilterRow, JudgeRow, Row, sentences_of, unit_of
from ragweave.training.trainer import arguments, one_gpu, run


class PairSettings(NeuralSettings):
    """Settings of cross-encoders."""

    recall: float = Field(0.9, ge=0, le=1)
    """Recall of the sentences to keep that a filter's threshold must reach on held-out rows."""


def settings_for(role: Role, given: dict[str, Any]) -> PairSettings:  # noqa: ARG001 - the same for both
    """Return the settings, with those given."""
    return PairSettings(**given)


class Group(NamedTuple):
    """The pairs of one row."""

    pairs: list[tuple[str, str]]
    labels: list[bool]
    sizes: list[int]
    """Words of each second text."""


def read_groups(rows: Sequence[Row]) -> Iterator[Group]:
    """Yield the pairs of each row: a judge's one, or one for each of a filter's sentences."""
    for row in rows:
        if isinstance(row, JudgeRow):
            yield Group([(row.question, row.draft)], [row.known], [len(row.draft.split())])
            continue
        passages, keep = sentences_of(cast("FilterRow", row))
        sizes = [len(text.split()) for one in passages for text in one.sentences]
        yield Group(sentence_pairs(row.question, passages), keep, sizes)


def fit(job: Job) -> Trained:
    """Train a cross-encoder, choose its threshold and measure it."""
    settings = cast("PairSettings", job.settings)
    set_seed(settings.seed)
    train = list(read_groups(job.train))
    labels = [one for each in train for one in each.labels]
    if all(labels) or not any(labels):
        raise UsageError("all rows have the same label, and a cross-encoder learns from both")
    model = cross_encoder(model_folder(settings.base), settings.max_input)
    pairs = [one for each in train for one in each.pairs]
    columns = {"first": [a for a, _ in pairs], "second": [b for _, b in pairs], "label": list(map(float, labels))}
    balance = torch.tensor((len(labels) - sum(labels)) / sum(labels))
    trainer: Any = _Trainer(
        model=model,
        args=one_gpu(CrossEncoderTrainingArguments(**arguments(settings, job.folder))),
        train_dataset=Dataset.from_dict(columns),
        loss=BinaryCrossEntropyLoss(model, pos_weight=balance),
    )
    run(trainer, job)
    metrics, threshold = _measured(PairScorer(model), list(read_groups(job.held_out)), job.role, settings.recall)
    if main := trainer.is_world_process_zero():
        model.model.save_pretrained(job.folder)
        model.tokenizer.save_pretrained(job.folder)
    fields = {"threshold": threshold, "unit": unit_of(job.train), "max_input": settings.max_input}
    return Trained(metrics=metrics, fields=fields, main=main)


class _Trainer(CrossEncoderTrainer):
    """The trainer without a model card of its own."""

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Add none."""


def _measured(scorer: PairScorer, groups: Sequence[Group], role: Role, recall: float) -> tuple[dict[str, float], float]:
    scores = [scorer.probabilities(one.pairs) for one in groups]
    if role == "judge":
        chances, labels = (
            np.asarray([one for (one,) in scores]),
            np.asarray([one.labels[0] for one in groups], np.bool_),
        )
        threshold = best_balanced(chances, labels)
        return judged(chances, labels, threshold), threshold
    chosen = [at for at, one in enumerate(groups) if any(one.labels) and not all(one.labels)]
    scores, keep = [scores[at] for at in chosen], [groups[at].labels for at in chosen]
    threshold = recall_threshold(scores, keep, recall)
    return filtered(scores, keep, [groups[at].sizes for at in chosen], threshold), threshold
