"""Kind `span-encoder`: a filter that reads a passage once and scores every sentence of it.

Ours, in no paper: it stands in the place of FILCO's M_ctx where a laptop has to do. A cross-encoder
reads a passage once a sentence; this one reads it once, so a sentence is judged among the others
and a passage costs one run.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ragweave.datasets.rows import file_hash
from ragweave.errors import UsageError
from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained import PartRole
from ragweave.trained.card import CARD
from ragweave.trained.span_reading import Reader
from ragweave.trained.span_scorer import KIND, SpanScorer, new_model, read_model, write_model
from ragweave.training.encoders.base import Measured, chosen_on, encoder_base, part_of_kind
from ragweave.training.encoders.loop import TrainingTask, run_training
from ragweave.training.encoders.pairs import sentences_of
from ragweave.training.encoders.span_rows import (
    Example,
    SpanSettings,
    TrainingExamples,
    measure_spans,
    read_examples,
    sheet_of,
)
from ragweave.training.job import (
    CHECKPOINTS,
    OF_ADAPTERS,
    InputPreview,
    Job,
    Settings,
    TrainingResult,
)
from ragweave.training.rows import SilverRow
from ragweave.training.trainer.arguments import device_of, recompute
from ragweave.training.trainer.checkpoints import room_needed

if TYPE_CHECKING:
    from ragweave.trained.span_network import SpanEncoder


_LAYER = re.compile(r"\blayers?\.(\d+)\.")


class Start(NamedTuple):
    """Where a training begins."""

    reader: Reader
    path: Path
    """Folder of the encoder or of the part."""
    part: Mapping[str, Any] | None
    """Name and card's hash of the part that is trained further; None: an encoder with a new head."""
    limit: int
    """Most tokens of a window."""


def start_of(settings: SpanSettings) -> Start:
    """Find what a training begins from; only its tokenizer is loaded.

    Raises:
        UsageError: The base is a part of another kind or no encoder, or reads less than asked for.
        ModelError: It is not on this machine.
    """
    folder = Path(settings.base).expanduser()
    part = None
    if part_of_kind(settings.base, KIND):
        part = {"part": folder.resolve().name, "card_sha256": file_hash(folder / CARD)}
    base = encoder_base(settings)
    return Start(Reader(base.tokenizer, base.limit), base.path, part, base.limit)


def model_of(start: Start, settings: SpanSettings) -> SpanEncoder:
    """Load the network; a new head is drawn by the seed.

    Raises:
        ModelError: The weights can't be read.
        UsageError: It can't compute activations again, as is asked for.
    """
    import torch

    torch.manual_seed(settings.seed)
    load = new_model if start.part is None else read_model
    model = load(start.path, settings.dropout)
    if settings.gradient_checkpointing:
        recompute(model.encoder)
    return model


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


_BETWEEN = 64
"""Held-out rows scored between two looks at whether somebody wants to stop."""


class SpanEncoderRecipe:
    """How a span encoder is trained (`training.job.Recipe`)."""

    roles: tuple[PartRole, ...] = ("filter",)
    extra = "train"
    modules = ("torch", "transformers", "safetensors")

    def defaults(self, role: PartRole) -> Settings:  # noqa: ARG002 - one role alone
        """Return the settings."""
        return SpanSettings()

    def unused(self, role: PartRole) -> frozenset[str]:  # noqa: ARG002 - one role alone
        """Return the settings that have no effect."""
        return OF_ADAPTERS | {"max_output"}

    def check(self, job: Job) -> None:
        """Check that the base is available."""
        start_of(_settings(job))

    def preview(self, job: Job) -> Iterator[InputPreview]:
        """Yield the windows of the training rows as the model will see them."""
        reader = start_of(_settings(job)).reader
        for row in job.rows.train:
            found = sentences_of(cast("SilverRow", row))
            if not found:
                continue
            for window in reader.read(sheet_of(cast("SilverRow", row), found)).windows:
                own = sorted({one for one in window.owners if one >= 0})
                kept = [found[index].span["text"] for index in own if found[index].keep]
                shown = f"of {len(own)} sentences keep: {' | '.join(kept) or 'none'}"
                yield InputPreview(reader.tokenizer.decode(window.ids), shown)

    def fit(self, job: Job) -> TrainingResult:
        """Train, choose the threshold, and write the part into `job.folder`."""
        with quiet():
            return _fit(job, quickest(_settings(job)))


RECIPE = SpanEncoderRecipe()


def _settings(job: Job) -> SpanSettings:
    if isinstance(job.settings, SpanSettings):
        return job.settings
    raise UsageError(f"a span-encoder takes SpanSettings, not {type(job.settings).__name__}")


def _fit(job: Job, settings: SpanSettings) -> TrainingResult:
    from ragweave.training.encoders.span_loss import loss_of

    start = start_of(settings)
    train = read_examples(job.rows.train, start.reader)
    if not train.examples:
        raise UsageError(
            "no row has both sentences to keep and sentences to drop: a filter learns from rows "
            "with both"
        )
    held_out = read_examples(job.rows.held_out, start.reader)
    model = model_of(start, settings)
    tokenizer = start.reader.tokenizer
    scorer = SpanScorer(tokenizer, model)

    def measured() -> dict[str, Any] | None:
        logits = _logits(job, scorer, held_out.examples)
        if not logits:
            return None
        found = measure_spans(held_out.examples, logits, settings.recall)
        return {name: one["mean"] for name, one in found.metrics.items()}

    task = TrainingTask(
        model=model,
        items=train.examples,
        loss=loss_of(model, tokenizer.pad_token_id or 0, settings),
        settings=settings,
        groups=rates(model, settings),
        length=lambda one: one.read.length,
        measure=measured,
    )
    history = run_training(task, job.folder / CHECKPOINTS, job.watch, resume=job.resume)
    logits = _logits(job, scorer, held_out.examples)
    if logits is None:
        raise KeyboardInterrupt
    final = measure_spans(held_out.examples, logits, settings.recall)
    with room_needed(job.folder / CHECKPOINTS):
        write_model(job.folder, model, tokenizer)
    return TrainingResult(
        threshold=final.threshold,
        threshold_from=chosen_on(held_out.examples),
        metrics=_metrics(final, held_out, history),
        data=_data(start, train, held_out),
        settings={"max_input": start.limit},
    )


def _metrics(
    final: Measured, held_out: TrainingExamples, history: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the measures, and how many held-out rows are not in them."""
    left_out = {
        "no_sentence_kept": held_out.empty,
        "every_sentence_kept": held_out.whole,
    }
    shown = {**final.metrics, "rows_not_measured": left_out} if final.metrics else {}
    return {**shown, "epochs": history} if len(history) > 1 else shown


def _logits(job: Job, scorer: SpanScorer, examples: Sequence[Example]) -> list[list[float]] | None:
    """Score held-out rows; None where somebody wants to stop."""
    found: list[list[float]] = []
    for first in range(0, len(examples), _BETWEEN):
        if job.watch.stop_wanted:
            return None
        found += scorer.logits_of([one.read for one in examples[first : first + _BETWEEN]])
    return None if job.watch.stop_wanted else found


def _data(start: Start, train: TrainingExamples, held_out: TrainingExamples) -> dict[str, Any]:
    """Return what the card says of the examples and of the part that was trained further."""
    counts = {
        "used": {"train": len(train.examples), "held_out": len(held_out.examples)},
        "left_out": {
            "no_sentence_kept": train.empty + held_out.empty,
            "every_sentence_kept": train.whole + held_out.whole,
        },
    }
    return {**counts, "base": dict(start.part)} if start.part else counts
