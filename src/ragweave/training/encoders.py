"""Training of span encoders and cross-encoders (`tools/trained/networks.py`) by their libraries' trainers.

To a span encoder all passages of a row are one example. Its loss is the negative log of the softmax share of the sentences
to keep, and that of the answer's tokens in them. A cross-encoder reads each sentence, or a judge's draft, by itself.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from transformers import Trainer, TrainingArguments, set_seed

from ragweave.errors import UsageError
from ragweave.tools.models.huggingface import model_folder, model_of, tokenizer_of
from ragweave.tools.trained.card import read_card
from ragweave.tools.trained.forms import sentence_pairs
from ragweave.tools.trained.networks import (
    OUTSIDE,
    Reader,
    Sheet,
    SpanEncoder,
    SpanScorer,
    Window,
    batch_of,
    cross_encoder,
    padded,
    read_span_encoder,
    write_span_encoder,
)
from ragweave.training.job import EncoderSettings, Job, Scored, Trained, best_balanced, judged, measured
from ragweave.training.rows import FilterRow, JudgeRow, Row, sentences_of, unit_of
from ragweave.training.trainer import arguments, one_gpu, run

_HEAD_RATE = 5e-4
"""Highest learning rate of the head."""
_LAYER_DECAY = 0.9
"""How much slower each layer learns than the one above it."""
_FROZEN_LAYERS = 2
"""Lowest layers that don't learn, and with them the embeddings."""
_DROPOUT = 0.1
_EVERY_WEIGHT = 0.5
"""How much of the loss asks for each sentence to keep, rather than for any of them."""
_ANSWER_WEIGHT = 0.5
"""Weight of finding the answer's tokens."""
_LONGEST = 16
"""Most tokens of an answer that is looked for: longer ones are sentences themselves."""
_LOOSE = ("strinc",)
"""Measures that keep what holds the answer's words, whether or not it says so."""
_LAYER = re.compile(r"\blayers?\.(\d+)\.")


class Example(NamedTuple):
    """A row, read."""

    sheet: Sheet
    keep: list[bool]
    """Of each sentence; some are kept, and some are not."""
    sizes: list[int]
    """Words of each sentence."""
    every: bool
    """Whether each of them is right by itself, or at least one of them is."""
    answers: list[list[bool]]
    """Which tokens of each window are an answer's, in a sentence to keep."""


def read_examples(rows: Sequence[FilterRow], reader: Reader) -> Iterator[Example]:
    """Yield the rows that have both sentences to keep and sentences to drop; others teach nothing."""
    for row in rows:
        passages, keep = sentences_of(row)
        if all(keep) or not any(keep):
            continue
        sheet = reader.read(row.question, passages)
        wanted = [ids for ids in reader.tokens(row.answers) if 0 < len(ids) <= _LONGEST]
        sizes = [len(text.split()) for one in passages for text in one.sentences]
        marks = [answer_tokens(one, wanted, keep) for one in sheet.windows]
        yield Example(sheet, keep, sizes, row.source.get("measure") not in _LOOSE, marks)


def answer_tokens(window: Window, wanted: Sequence[list[int]], keep: Sequence[bool]) -> list[bool]:
    """Mark the tokens of sentences to keep that are one of the sequences `wanted`."""
    marks = [False] * len(window.ids)
    for ids in wanted:
        for at in range(len(window.ids) - len(ids) + 1):
            first, last = window.owners[at], window.owners[at + len(ids) - 1]
            if window.ids[at : at + len(ids)] == ids and first == last >= 0 and keep[first]:
                marks[at : at + len(ids)] = [True] * len(ids)
    return marks


class _SpanTrainer(Trainer):
    def compute_loss(self, model: Any, inputs: dict[str, Tensor], *_: Any, **__: Any) -> Tensor:
        """Return the mean loss of a batch of `collate`."""
        marks, keep, every, sizes = (inputs.pop(name) for name in ("marks", "keep", "every", "sizes"))
        scores = model(**inputs)
        losses = []
        for share, own, weight in zip(
            torch.split(scores.sentences, sizes.tolist()), torch.split(keep, sizes.tolist()), every, strict=True
        ):
            right = share.log_softmax(-1)[own]
            losses.append(-(1 - weight) * right.logsumexp(-1) - weight * right.mean())
        return torch.stack(losses).mean() + _ANSWER_WEIGHT * answer_loss(scores.tokens, marks, inputs["owners"] >= 0)


def answer_loss(tokens: Tensor, marks: Tensor, inside: Tensor) -> Tensor:
    """Return the mean negative log of the answers' share, over the windows that hold an answer.

    Args:
        tokens: Logits of tokens, (windows, tokens).
        marks: Which are an answer's, (windows, tokens).
        inside: Which are a scored sentence's, (windows, tokens).
    """
    held = marks.any(-1)
    if not bool(held.any()):
        return tokens.new_zeros(())
    some = tokens[held]
    right = some.masked_fill(~marks[held], OUTSIDE).logsumexp(-1)
    return (some.masked_fill(~inside[held], OUTSIDE).logsumexp(-1) - right).mean()


def collate(examples: Sequence[dict[str, Any]], filler: int) -> dict[str, Tensor]:
    """Make a batch."""
    some: list[Example] = [one["example"] for one in examples]
    batch = batch_of([one.sheet for one in some], filler)
    width = batch["input_ids"].shape[1]
    return {
        **batch,
        "marks": padded([marks for one in some for marks in one.answers], width, 0).bool(),
        "keep": torch.tensor([keep for one in some for keep in one.keep]),
        "every": torch.tensor([_EVERY_WEIGHT * one.every for one in some]),
        "sizes": torch.tensor([len(one.keep) for one in some]),
    }


def rates(model: SpanEncoder, settings: EncoderSettings) -> list[dict[str, Any]]:
    """Return AdamW's parameter groups, and freeze what does not learn; biases and norms don't decay."""
    layers = int(model.encoder.config.num_hidden_layers)
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, value in model.named_parameters():
        found = _LAYER.search(name)
        depth = int(found[1]) if found else -1 if "embed" in name else layers - 1
        inside = name.startswith("encoder.")
        if inside and depth < min(_FROZEN_LAYERS, layers):
            value.requires_grad = False
            continue
        rate = settings.learning_rate * _LAYER_DECAY ** (layers - 1 - depth) if inside else _HEAD_RATE
        groups.setdefault((rate, settings.weight_decay if value.ndim > 1 else 0.0), []).append(value)
    return [{"params": values, "lr": rate, "weight_decay": decay} for (rate, decay), values in groups.items()]


def fit_spans(job: Job) -> Trained:
    """Train a span encoder, choose its threshold and measure it."""
    settings = cast("EncoderSettings", job.settings)
    set_seed(settings.seed)
    path, model = _start(settings.base)
    tokenizer = tokenizer_of(path)
    limit = min(settings.max_input, tokenizer.model_max_length, model.encoder.config.max_position_embeddings)
    reader = Reader(tokenizer, limit)
    train, held_out = cast("list[FilterRow]", job.train), cast("list[FilterRow]", job.held_out)
    items = [{"example": one, "input_ids": range(one.sheet.length)} for one in read_examples(train, reader)]
    if not items:
        raise UsageError("no row has both sentences to keep and sentences to drop, and a filter learns from both")
    values = arguments(settings, job.folder, train_sampling_strategy="group_by_length")
    trainer: Any = _SpanTrainer(
        model=model,
        args=one_gpu(TrainingArguments(**values)),
        train_dataset=cast("Any", items),
        data_collator=partial(collate, filler=tokenizer.pad_token_id or 0),
        optimizers=(torch.optim.AdamW(rates(model, settings), lr=settings.learning_rate), None),
    )
    run(trainer, job)
    shares = SpanScorer(reader, model).shares
    scored = [Scored(shares([one.sheet])[0], one.keep, one.sizes) for one in read_examples(held_out, reader)]
    metrics, threshold = measured(scored, settings.recall)
    if main := trainer.is_world_process_zero():
        write_span_encoder(job.folder, model, tokenizer)
    fields = {"threshold": threshold, "unit": unit_of(train), "max_input": limit}
    return Trained(metrics=metrics, fields=fields, main=main)


def _start(base: str) -> tuple[Path, SpanEncoder]:
    """Return the base's folder and its network, with a new head if the base is no span encoder."""
    path = model_folder(base)
    if not (path / "card.json").is_file():
        return path, SpanEncoder(model_of(path, "AutoModel", dtype=torch.float32), _DROPOUT)
    if (kind := read_card(path, "filter").kind) != "span-encoder":
        raise UsageError(f"{base}: is a {kind}, and a span-encoder begins from another one or from an encoder")
    return path, read_span_encoder(path, _DROPOUT)


# ---- cross-encoders


class Group(NamedTuple):
    """The pairs of one row."""

    pairs: list[tuple[str, str]]
    keep: list[bool]
    """A judge's one says whether the draft is known."""
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


def fit_pairs(job: Job) -> Trained:
    """Train a cross-encoder, choose its threshold and measure it."""
    from sentence_transformers import cross_encoder as library
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    from datasets import Dataset

    class _Trainer(library.CrossEncoderTrainer):
        def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
            """Write no card of the library's, which would ask the hub."""

    settings = cast("EncoderSettings", job.settings)
    set_seed(settings.seed)
    train = list(read_groups(job.train))
    labels = [one for each in train for one in each.keep]
    if all(labels) or not any(labels):
        raise UsageError("all rows have the same label, and a cross-encoder learns from both")
    model = cross_encoder(model_folder(settings.base), settings.max_input)
    pairs = [one for each in train for one in each.pairs]
    columns = {"first": [a for a, _ in pairs], "second": [b for _, b in pairs], "label": list(map(float, labels))}
    balance = torch.tensor((len(labels) - sum(labels)) / sum(labels))
    trainer: Any = _Trainer(
        model=model,
        args=one_gpu(library.CrossEncoderTrainingArguments(**arguments(settings, job.folder))),
        train_dataset=Dataset.from_dict(columns),
        loss=BinaryCrossEntropyLoss(model, pos_weight=balance),
    )
    run(trainer, job)
    scored = [Scored(model.predict(one.pairs).tolist(), one.keep, one.sizes) for one in read_groups(job.held_out)]
    metrics, threshold = _measured_judge(scored) if job.role == "judge" else measured(scored, settings.recall)
    if main := trainer.is_world_process_zero():
        model.model.save_pretrained(job.folder)
        model.tokenizer.save_pretrained(job.folder)
    fields = {"threshold": threshold, "unit": unit_of(job.train), "max_input": settings.max_input}
    return Trained(metrics=metrics, fields=fields, main=main)


def _measured_judge(rows: Sequence[Scored]) -> tuple[dict[str, float], float]:
    chances, labels = np.asarray([one.scores[0] for one in rows]), np.asarray([one.keep[0] for one in rows], np.bool_)
    threshold = best_balanced(chances, labels)
    return judged(chances, labels, threshold), threshold
