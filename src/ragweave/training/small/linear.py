"""Kind `linear`: a judge that weighs what can be read off a question and its draft.

Ours, in no paper: it stands in the place of SlimPLM's fine-tuned judge (section 3.2) where a laptop
has to do. Hedging, the form of the question, the shape of the draft, how rare the words are and how
near an encoder finds names and question to each other tell more about a draft than a small
cross-encoder learns from hundreds of rows (`benchmarks/trained_judge.py` measures both).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np

from ragweave.errors import UsageError
from ragweave.tools.parts import PartRole
from ragweave.tools.parts.judge.encoder import load_encoder
from ragweave.tools.parts.judge.reading import COLUMNS, Read, read_pairs, texts_of
from ragweave.tools.parts.judge.reference import Array, Reference
from ragweave.tools.parts.judge.weights import LinearWeights, write_weights
from ragweave.tools.scorers.local import quiet
from ragweave.training.calibration import NEUTRAL, Platt, best_balanced, calibrate
from ragweave.training.job import CHECKPOINTS, Fitted, Job, Shown
from ragweave.training.measures import as_json, judge_measures
from ragweave.training.rows import JudgeRow, TrainingRow
from ragweave.training.settings import Settings
from ragweave.training.small.linear_fit import Labels, Line, fit_line, out_of_fold
from ragweave.training.small.linear_rows import (
    KEPT,
    pairs_of,
    read_rows,
    reference_of,
    room_kept,
)
from ragweave.training.small.linear_settings import LinearSettings
from ragweave.training.small.pairs import NAMES
from ragweave.training.splits import question_key


class LinearRecipe:
    """How a linear judge is trained (`training.job.Recipe`)."""

    roles: tuple[PartRole, ...] = ("judge",)
    extra = "train"
    modules = ("torch", "sentence_transformers", "safetensors", "sklearn")

    def defaults(self, role: PartRole) -> Settings:  # noqa: ARG002 - one role alone
        """Return the defaults."""
        return LinearSettings()

    def check(self, job: Job) -> None:
        """Look whether the base can be had."""
        load_encoder(_settings(job).base, device=job.settings.device)

    def show(self, job: Job) -> Iterator[Shown]:
        """Yield each row as the judge reads it: features by name, and the texts of its vectors."""
        encoder = load_encoder(job.settings.base, device=job.settings.device)
        reference = reference_of(job.rows.train, encoder, job.settings.seed)
        for row, pair in zip(job.rows.train, pairs_of(job.rows.train), strict=True):
            read = read_pairs([pair], encoder, reference)
            texts = texts_of(*pair)
            values = zip(COLUMNS, read.surface[0], strict=True)
            lines = [f"{name} = {value:.3f}" for name, value in values]
            lines += [f"vector of: {text}" for text in (texts.question, texts.opened)]
            yield Shown("\n".join(lines), NAMES["judge"][int(cast("JudgeRow", row)["known"])])

    def fit(self, job: Job) -> Fitted:
        """Read the rows, fit, calibrate, choose the threshold, and write `job.folder`."""
        return _fit(job, _settings(job))


RECIPE = LinearRecipe()


def _settings(job: Job) -> LinearSettings:
    if isinstance(job.settings, LinearSettings):
        return job.settings
    raise UsageError(f"a linear judge takes LinearSettings, not {type(job.settings).__name__}")


def _fit(job: Job, settings: LinearSettings) -> Fitted:
    count = len(job.rows.train)
    labels, held_out = _labels(job.rows.train), _labels(job.rows.held_out)
    if labels.all() or not labels.any():
        only = NAMES["judge"][int(labels.any())]
        raise UsageError(
            f"all {count} drafts to train on are labelled {only!r}: a judge learns from both"
        )
    with quiet():
        encoder = load_encoder(settings.base, device=settings.device)
        reference = reference_of(job.rows.train, encoder, settings.seed, lambda: _stop(job))
        read = read_rows(job, encoder, reference)
    train, rest = (Read(*(block[part] for block in read)) for part in _parts(count))
    groups = [question_key(row) for row in job.rows.train]
    free = out_of_fold(train, labels, groups, settings, lambda: _stop(job))
    platt, threshold, metrics = _calibrated(job, free, labels)
    line = fit_line(train, labels, settings)
    chances = platt.probabilities(line.logits(rest).tolist())
    if chances:
        found = judge_measures(chances, held_out.tolist(), threshold)
        metrics = {**as_json(found), **metrics}
    shown = "training rows, out of fold" if free is not None else "nothing: rows were too few"
    with room_kept(job.folder / CHECKPOINTS / KEPT):
        write_weights(job.folder, _weights(line, platt, reference))
    return Fitted(threshold=threshold, threshold_from=shown, metrics=metrics)


def _labels(rows: Sequence[TrainingRow]) -> Labels:
    return np.asarray([cast("JudgeRow", row)["known"] for row in rows], dtype=np.bool_)


def _parts(count: int) -> tuple[slice, slice]:
    return slice(count), slice(count, None)


def _stop(job: Job) -> None:
    """Stop where somebody wants to; what was read is kept."""
    if job.watch.stop_wanted:
        raise KeyboardInterrupt


def _calibrated(
    job: Job, free: Array | None, labels: Labels
) -> tuple[Platt, float, dict[str, Any]]:
    """Calibrate and choose the threshold on rows that were not fitted on, training rows all.

    A row's repeats are one logit to the calibration, their mean: as rows of their own they would
    stand in both of its halves.
    """
    if free is None:
        job.watch.say("too few questions to calibrate on: the threshold is 0.5")
        return Platt(), NEUTRAL, {}
    truth = np.tile(labels, len(free)).tolist()
    platt = calibrate(free.mean(axis=0).tolist(), labels.tolist())
    threshold = best_balanced(platt.probabilities(free.ravel().tolist()), truth)
    first = platt.probabilities(free[0].tolist())
    found = as_json(judge_measures(first, labels.tolist(), threshold))
    shown = ", ".join(f"{name} {one['mean']:.3f}" for name, one in found.items())
    job.watch.say(f"on questions that were not fitted on: loss {_loss(first, labels):.4f}, {shown}")
    kept = {f"out_of_fold_{name}": found[name] for name in ("accuracy", "auc")}
    return platt, threshold, kept


def _loss(chances: Sequence[float], labels: Labels) -> float:
    """Return the mean cross-entropy."""
    right = np.where(labels, chances, 1 - np.asarray(chances))
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def _weights(line: Line, platt: Platt, reference: Reference) -> LinearWeights:
    """Fold the calibration into the weights, so that a logit's sigmoid is the probability."""
    return LinearWeights(
        line.surface * platt.scale,
        line.meaning * platt.scale,
        line.bias * platt.scale + platt.shift,
        reference,
    )
