"""Kind `span-encoder`: a filter that reads a passage once and scores every sentence of it.

Ours, in no paper: it stands in the place of FILCO's M_ctx where a laptop has to do. A cross-encoder
reads a passage once a sentence; this one reads it once, so a sentence is judged beside its rivals
and a passage costs one run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from ragweave.errors import UsageError
from ragweave.tools.parts import PartRole
from ragweave.tools.parts.spans.scorer import SpanScorer
from ragweave.tools.parts.spans.weights import write_model
from ragweave.tools.scorers.local import quiet
from ragweave.training.job import CHECKPOINTS, Fitted, Job, Shown
from ragweave.training.rows import SilverRow
from ragweave.training.running.guard import room_needed
from ragweave.training.settings import Settings
from ragweave.training.small.loop import Lesson, learn
from ragweave.training.small.measuring import Measured, chosen_on
from ragweave.training.small.sentences import sentences_of
from ragweave.training.small.span_measuring import measure_spans
from ragweave.training.small.span_rows import Example, Sorted, examples_of, sheet_of
from ragweave.training.small.span_settings import SpanSettings
from ragweave.training.small.span_start import Start, model_of, quickest, rates, start_of

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

    def check(self, job: Job) -> None:
        """Look whether the base can be had."""
        start_of(_settings(job))

    def show(self, job: Job) -> Iterator[Shown]:
        """Yield the windows of the training rows as the model will see them."""
        reader = start_of(_settings(job)).reader
        for row in job.rows.train:
            found = sentences_of(cast("SilverRow", row))
            if not found:
                continue
            for window in reader.read(sheet_of(cast("SilverRow", row), found)).windows:
                own = sorted({one for one in window.owners if one >= 0})
                kept = [found[at].span["text"] for at in own if found[at].keep]
                shown = f"of {len(own)} sentences keep: {' | '.join(kept) or 'none'}"
                yield Shown(reader.tokenizer.decode(window.ids), shown)

    def fit(self, job: Job) -> Fitted:
        """Train, choose the threshold, and write the part into `job.folder`."""
        with quiet():
            return _fit(job, quickest(_settings(job)))


RECIPE = SpanEncoderRecipe()


def _settings(job: Job) -> SpanSettings:
    if isinstance(job.settings, SpanSettings):
        return job.settings
    raise UsageError(f"a span-encoder takes SpanSettings, not {type(job.settings).__name__}")


def _fit(job: Job, settings: SpanSettings) -> Fitted:
    from ragweave.training.small.span_loss import loss_of

    start = start_of(settings)
    train = examples_of(job.rows.train, start.reader)
    if not train.examples:
        raise UsageError(
            "no row has both sentences to keep and sentences to drop: a filter learns from rows "
            "with both"
        )
    held_out = examples_of(job.rows.held_out, start.reader)
    model = model_of(start, settings)
    tokenizer = start.reader.tokenizer
    scorer = SpanScorer(tokenizer, model)

    def measured() -> dict[str, Any] | None:
        logits = _logits(job, scorer, held_out.examples)
        if not logits:
            return None
        found = measure_spans(held_out.examples, logits, settings.recall)
        return {name: one["mean"] for name, one in found.metrics.items()}

    lesson = Lesson(
        model=model,
        items=train.examples,
        loss=loss_of(model, tokenizer.pad_token_id or 0, settings),
        settings=settings,
        groups=rates(model, settings),
        length=lambda one: one.read.length,
        measure=measured,
    )
    history = learn(lesson, job.folder / CHECKPOINTS, job.watch, resume=job.resume)
    logits = _logits(job, scorer, held_out.examples)
    if logits is None:
        raise KeyboardInterrupt
    final = measure_spans(held_out.examples, logits, settings.recall)
    with room_needed(job.folder / CHECKPOINTS):
        write_model(job.folder, model, tokenizer)
    return Fitted(
        threshold=final.threshold,
        threshold_from=chosen_on(held_out.examples),
        metrics=_metrics(final, held_out, history),
        data=_data(start, train, held_out),
    )


def _metrics(final: Measured, held_out: Sorted, history: Mapping[str, Any]) -> dict[str, Any]:
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


def _data(start: Start, train: Sorted, held_out: Sorted) -> dict[str, Any]:
    """Return what the card says of the examples and of the part that was gone on with."""
    counts = {
        "used": {"train": len(train.examples), "held_out": len(held_out.examples)},
        "left_out": {
            "no_sentence_kept": train.empty + held_out.empty,
            "every_sentence_kept": train.whole + held_out.whole,
        },
    }
    return {**counts, "base": dict(start.part)} if start.part else counts
