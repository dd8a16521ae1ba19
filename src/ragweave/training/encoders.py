"""Training of span encoders (`tools/trained/networks.py`) by transformers' trainer.

All passages of a row are one example. The loss is the negative log of the softmax share of the sentences to keep, plus
that of the answer's tokens in them.
"""

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from transformers import Trainer, TrainingArguments, set_seed

from ragweave.errors import UsageError
from ragweave.tools.models.huggingface import model_folder, model_of, tokenizer_of
from ragweave.tools.trained.card import read_card
from ragweave.tools.trained.networks import (
    OUTSIDE,
    EncoderWindow,
    Reader,
    Sheet,
    SpanEncoder,
    SpanScorer,
    batch_of,
    padded,
    read_span_encoder,
    write_span_encoder,
)
from ragweave.training.job import EncoderSettings, Job, Scored, Trained, measured
from ragweave.training.rows import FilterRow, sentences_of, unit_of
from ragweave.training.trainer import arguments, one_gpu, run

_HEAD_RATE = 5e-4
"""Highest learning rate of the head."""
_LAYER_DECAY = 0.9
"""Learning rate of each layer relative to the layer above it."""
_FROZEN_LAYERS = 2
"""Number of lowest layers that don't learn; the embeddings don't either."""
_DROPOUT = 0.1
_EVERY_WEIGHT = 0.5
"""Share of the loss that asks for every sentence to keep, rather than for any of them."""
_ANSWER_WEIGHT = 0.5
"""Weight of finding the answer's tokens."""
_MAX_ANSWER = 16
"""Maximum tokens of an answer that is searched for: longer answers are sentences themselves."""
_LOOSE = ("strinc",)
"""Measures that keep every sentence with the answer's words, whether or not it states the answer."""
_LAYER = re.compile(r"\blayers?\.(\d+)\.")


class Example(NamedTuple):
    """A tokenized row."""

    sheet: Sheet
    keep: list[bool]
    """Whether to keep each sentence; there are both kinds."""
    sizes: list[int]
    """Words of each sentence."""
    every: bool
    """Whether every sentence to keep is right alone; otherwise, at least one is."""
    answers: list[list[bool]]
    """Which tokens of each window belong to an answer in a sentence to keep."""


def read_examples(rows: Sequence[FilterRow], reader: Reader) -> Iterator[Example]:
    """Yield the rows that have both sentences to keep and sentences to drop; the others teach nothing."""
    for row in rows:
        passages, keep = sentences_of(row)
        if all(keep) or not any(keep):
            continue
        sheet = reader.read(row.question, passages)
        wanted = [ids for ids in reader.tokens(row.answers) if 0 < len(ids) <= _MAX_ANSWER]
        sizes = [len(text.split()) for passage in passages for text in passage.sentences]
        marks = [answer_tokens(window, wanted, keep) for window in sheet.windows]
        yield Example(sheet, keep, sizes, row.source.get("measure") not in _LOOSE, marks)


def answer_tokens(window: EncoderWindow, wanted: Sequence[list[int]], keep: Sequence[bool]) -> list[bool]:
    """Return for each token whether it is part of a wanted sequence in a sentence to keep."""
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
        marks: Which tokens belong to an answer, (windows, tokens).
        inside: Which tokens belong to a scored sentence, (windows, tokens).
    """
    answered = marks.any(-1)
    if not bool(answered.any()):
        return tokens.new_zeros(())
    logits = tokens[answered]
    right = logits.masked_fill(~marks[answered], OUTSIDE).logsumexp(-1)
    return (logits.masked_fill(~inside[answered], OUTSIDE).logsumexp(-1) - right).mean()


def collate(examples: Sequence[dict[str, Any]], filler: int) -> dict[str, Tensor]:
    """Return a batch of examples."""
    read: list[Example] = [item["example"] for item in examples]
    batch = batch_of([example.sheet for example in read], filler)
    width = batch["input_ids"].shape[1]
    return {
        **batch,
        "marks": padded([marks for example in read for marks in example.answers], width, 0).bool(),
        "keep": torch.tensor([keep for example in read for keep in example.keep]),
        "every": torch.tensor([_EVERY_WEIGHT * example.every for example in read]),
        "sizes": torch.tensor([len(example.keep) for example in read]),
    }


def rates(model: SpanEncoder, settings: EncoderSettings) -> list[dict[str, Any]]:
    """Return AdamW's parameter groups, and freeze what does not learn; biases and norms don't decay."""
    layers = int(model.encoder.config.num_hidden_layers)
    groups: dict[tuple[float, float], list[Any]] = {}
    for name, value in model.named_parameters():
        layer = _LAYER.search(name)
        depth = int(layer[1]) if layer else -1 if "embed" in name else layers - 1
        inside = name.startswith("encoder.")
        if inside and depth < min(_FROZEN_LAYERS, layers):
            value.requires_grad = False
            continue
        rate = settings.learning_rate * _LAYER_DECAY ** (layers - 1 - depth) if inside else _HEAD_RATE
        groups.setdefault((rate, settings.weight_decay if value.ndim > 1 else 0.0), []).append(value)
    return [{"params": values, "lr": rate, "weight_decay": decay} for (rate, decay), values in groups.items()]


def fit(job: Job) -> Trained:
    """Train a span encoder, choose its threshold and measure it."""
    settings = cast("EncoderSettings", job.settings)
    set_seed(settings.seed)
    path, model = _start(settings.base)
    tokenizer = tokenizer_of(path)
    limit = min(settings.max_input, tokenizer.model_max_length, model.encoder.config.max_position_embeddings)
    reader = Reader(tokenizer, limit)
    train, held_out = cast("list[FilterRow]", job.train), cast("list[FilterRow]", job.held_out)
    items = [{"example": example, "input_ids": range(example.sheet.length)} for example in read_examples(train, reader)]
    if not items:
        raise UsageError("no row has both sentences to keep and sentences to drop; a filter learns from both")
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
    scored = [
        Scored(shares([example.sheet])[0], example.keep, example.sizes) for example in read_examples(held_out, reader)
    ]
    metrics, threshold = measured(scored, settings.recall)
    if main := trainer.is_world_process_zero():
        write_span_encoder(job.folder, model, tokenizer)
    fields = {"threshold": threshold, "unit": unit_of(train), "max_input": limit}
    return Trained(metrics=metrics, fields=fields, main=main)


def _start(base: str) -> tuple[Path, SpanEncoder]:
    """Return the base's folder and its network, with a new head if the base is not a span encoder."""
    path = model_folder(base)
    if not (path / "card.json").is_file():
        return path, SpanEncoder(model_of(path, "AutoModel", dtype=torch.float32), _DROPOUT)
    if (kind := read_card(path, "filter").kind) != "span-encoder":
        raise UsageError(f"{base}: is a {kind}; a span-encoder starts from a span-encoder or an encoder")
    return path, read_span_encoder(path, _DROPOUT)
