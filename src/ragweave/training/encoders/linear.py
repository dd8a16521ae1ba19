"""Kind `linear`: a judge that weighs what can be read off a question and its draft.

Ours, in no paper: it stands in the place of SlimPLM's fine-tuned judge (section 3.2) where a laptop
has to do. Hedging, the form of the question, the shape of the draft, how rare the words are and how
near an encoder finds names and question to each other say more about a draft than a small
cross-encoder learns from hundreds of rows (`benchmarks/trained_judge.py` measures both).

It is two logistic regressions whose logits are added: features and cosines are few and say much
each, the vectors' columns are many and say little, so each block has a penalty of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ragweave.errors import UsageError
from ragweave.tools.scorers.huggingface import quiet
from ragweave.trained import PartRole
from ragweave.trained.judge import LinearWeights, write_weights
from ragweave.trained.judge_reading import (
    COLUMNS,
    Array,
    PairFeatures,
    ReferenceMoments,
    load_encoder,
    pair_texts,
    read_pairs,
)
from ragweave.training.encoders.base import check_no_part
from ragweave.training.encoders.kept_rows import KEPT, room_kept
from ragweave.training.encoders.linear_rows import pairs_of, read_rows, reference_moments
from ragweave.training.encoders.pairs import NAMES
from ragweave.training.job import CHECKPOINTS, InputPreview, Job, Settings, TrainingResult
from ragweave.training.measures import (
    NEUTRAL,
    Platt,
    as_json,
    best_balanced,
    calibrate,
    judge_measures,
)
from ragweave.training.rows import JudgeRow, TrainingRow, question_key

_USED = frozenset({"base", "held_out", "seed", "device"})


@dataclass(frozen=True, kw_only=True)
class LinearSettings(Settings):
    """Settings of a linear judge. It is solved rather than stepped: epochs and rates are refused."""

    base: str = "minilm"
    """The embedding model: `minilm` (packaged), a local path, or a hub name in the hub's cache."""
    surface_strength: float = 0.005
    """Inverse of the L2 penalty on the weights of features and cosines; smaller is stiffer."""
    meaning_strength: float = 0.0003
    """Inverse of the L2 penalty on the weights of the vectors."""
    folds: int = 8
    """Parts that the questions are dealt into to calibrate on rows that were not fitted on."""
    repeats: int = 4
    """Times that they are dealt again."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is of the wrong type or out of its range, or has no effect here.
        """
        super().__post_init__()
        for one in dataclasses.fields(Settings):
            changed = one.name not in _USED and getattr(self, one.name) != one.default
            if changed:
                raise UsageError(f"a linear judge is trained without {one.name}: leave it out")
        for name in ("surface_strength", "meaning_strength"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.folds < 2 or self.repeats < 1:
            raise UsageError("folds must be at least 2, and repeats at least 1")


Labels = NDArray[np.bool_]

_ITERATIONS = 2000
_CONSTANT = 1e-9


class LinearFit(NamedTuple):
    """A fitted judge before calibration."""

    surface: Array
    meaning: Array
    bias: float

    def logits(self, read: PairFeatures) -> Array:
        """Return the logit of each row."""
        total: Array = read.surface @ self.surface + read.meaning @ self.meaning + self.bias
        return total


def fit_linear(read: PairFeatures, labels: Labels, settings: LinearSettings) -> LinearFit:
    """Fit both blocks; the rows must have both labels."""
    surface, first = fit_block(read.surface, labels, settings.surface_strength)
    meaning, second = fit_block(read.meaning, labels, settings.meaning_strength)
    return LinearFit(surface, meaning, first + second)


def fit_block(rows: Array, labels: Labels, strength: float) -> tuple[Array, float]:
    """Fit an L2-penalised logistic regression on standardised columns.

    Returns:
        Weights and bias for the columns as they are; a constant column weighs nothing.
    """
    from sklearn.linear_model import LogisticRegression

    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale < _CONSTANT, 1.0, scale)
    model = LogisticRegression(C=strength, max_iter=_ITERATIONS)
    model.fit((rows - mean) / scale, labels)
    weights: Array = model.coef_[0] / scale
    return weights, float(model.intercept_[0] - weights @ mean)


def out_of_fold(
    read: PairFeatures,
    labels: Labels,
    groups: Sequence[str],
    settings: LinearSettings,
    look: Callable[[], None] = lambda: None,
) -> Array | None:
    """Return the logit of each row by lines that were fitted without its question.

    Args:
        read: The rows.
        labels: Their labels.
        groups: What rows of one question share.
        settings: How many folds and repeats.
        look: Called before each fit.

    Returns:
        (repeats, rows), or None where the labels are too few to deal out.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    folds = min(settings.folds, *(len(_groups(groups, labels == one)) for one in (True, False)))
    if folds < 2:
        return None
    found = np.zeros((settings.repeats, len(labels)))
    for repeat in range(settings.repeats):
        dealt = StratifiedGroupKFold(folds, shuffle=True, random_state=settings.seed + repeat)
        for train, rest in dealt.split(read.surface, labels, list(groups)):
            look()
            if len(set(labels[train].tolist())) < 2:
                return None
            line = fit_linear(_rows(read, train), labels[train], settings)
            found[repeat, rest] = line.logits(_rows(read, rest))
    return found


def _rows(read: PairFeatures, chosen: NDArray[np.intp]) -> PairFeatures:
    return PairFeatures(read.surface[chosen], read.meaning[chosen])


def _groups(groups: Sequence[str], chosen: Labels) -> set[str]:
    return {group for group, one in zip(groups, chosen, strict=True) if one}


class LinearRecipe:
    """How a linear judge is trained (`training.job.Recipe`)."""

    roles: tuple[PartRole, ...] = ("judge",)
    extra = "train"
    modules = ("torch", "sentence_transformers", "safetensors", "sklearn")

    def defaults(self, role: PartRole) -> Settings:  # noqa: ARG002 - one role alone
        """Return the defaults."""
        return LinearSettings()

    def unused(self, role: PartRole) -> tuple[str, ...]:  # noqa: ARG002 - one role alone
        """Return nothing: the settings themselves refuse what has no effect."""
        return ()

    def check(self, job: Job) -> None:
        """Check that the base is available, and an embedding model."""
        check_no_part(job.settings.base, job.kind)
        load_encoder(_settings(job).base, device=job.settings.device)

    def preview(self, job: Job) -> Iterator[InputPreview]:
        """Yield each row as the judge reads it: features by name, and the texts of its vectors."""
        encoder = load_encoder(job.settings.base, device=job.settings.device)
        reference = reference_moments(job.rows.train, encoder, job.settings.seed)
        for row, pair in zip(job.rows.train, pairs_of(job.rows.train), strict=True):
            read = read_pairs([pair], encoder, reference)
            texts = pair_texts(*pair)
            values = zip(COLUMNS, read.surface[0], strict=True)
            lines = [f"{name} = {value:.3f}" for name, value in values]
            lines += [f"vector of: {text}" for text in (texts.question, texts.opened)]
            yield InputPreview(
                "\n".join(lines), NAMES["judge"][int(cast("JudgeRow", row)["known"])]
            )

    def fit(self, job: Job) -> TrainingResult:
        """Read the rows, fit, calibrate, choose the threshold, and write `job.folder`."""
        return _fit(job, _settings(job))


RECIPE = LinearRecipe()


def _settings(job: Job) -> LinearSettings:
    if isinstance(job.settings, LinearSettings):
        return job.settings
    raise UsageError(f"a linear judge takes LinearSettings, not {type(job.settings).__name__}")


def _fit(job: Job, settings: LinearSettings) -> TrainingResult:
    count = len(job.rows.train)
    labels, held_out = _labels(job.rows.train), _labels(job.rows.held_out)
    if labels.all() or not labels.any():
        only = NAMES["judge"][int(labels.any())]
        raise UsageError(
            f"all {count} drafts to train on are labelled {only!r}: a judge learns from both"
        )
    with quiet():
        encoder = load_encoder(settings.base, device=settings.device)
        reference = reference_moments(job.rows.train, encoder, settings.seed, lambda: _stop(job))
        read = read_rows(job, encoder, reference)
    train, rest = (PairFeatures(*(block[part] for block in read)) for part in _parts(count))
    groups = [question_key(row) for row in job.rows.train]
    free = out_of_fold(train, labels, groups, settings, lambda: _stop(job))
    platt, threshold, metrics = _calibrated(job, free, labels)
    line = fit_linear(train, labels, settings)
    chances = platt.probabilities(line.logits(rest).tolist())
    if chances:
        found = judge_measures(chances, held_out.tolist(), threshold)
        metrics = {**as_json(found), **metrics}
    shown = "training rows, out of fold" if free is not None else "nothing: rows were too few"
    with room_kept(job.folder / CHECKPOINTS / KEPT):
        write_weights(job.folder, _weights(line, platt, reference))
    return TrainingResult(threshold=threshold, threshold_from=shown, metrics=metrics)


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
    job.watch.say(f"on held-out folds: loss {_loss(first, labels):.4f}, {shown}")
    kept = {f"out_of_fold_{name}": found[name] for name in ("accuracy", "auc")}
    return platt, threshold, kept


def _loss(chances: Sequence[float], labels: Labels) -> float:
    """Return the mean cross-entropy."""
    right = np.where(labels, chances, 1 - np.asarray(chances))
    return float(-np.log(np.maximum(right, 1e-12)).mean())


def _weights(line: LinearFit, platt: Platt, reference: ReferenceMoments) -> LinearWeights:
    """Fold the calibration into the weights, so that a logit's sigmoid is the probability."""
    return LinearWeights(
        line.surface * platt.scale,
        line.meaning * platt.scale,
        line.bias * platt.scale + platt.shift,
        reference,
    )
