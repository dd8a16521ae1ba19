"""Training of linear judges and routers (`tools/trained/linear.py`) by scikit-learn.

The few features each say much, the many columns of vectors little: features are penalised less. The threshold is chosen
on out-of-fold predictions.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np

from ragweave.errors import UsageError
from ragweave.state import ROUTES
from ragweave.tools.trained.linear import FEATURES, Array, Linear, read_rows
from ragweave.tools.trained.models import dearest
from ragweave.training.job import Flags, Job, LinearSettings, RouterSettings, Trained, auc, best_balanced, judged
from ragweave.training.rows import JudgeRow, LabelledRow, RouterRow, question_key

_STRENGTH = 0.0005
"""Inverse L2 penalty of the vectors' standardised columns."""
_FEATURES_SCALE = 10.0
"""Factor of the features' columns; it lowers their penalty by its square."""
_SURE = 6.0
"""The logit of a route that was right on every row."""
_GRID = np.round(np.arange(0.0, 1.001, 0.005), 3)


def fit_linear(rows: Array, labels: Flags) -> Linear:
    """Fit a regression for each output: to rows of `read_rows`, (n, columns), and labels, (n, c)."""
    mean, scale = rows.mean(axis=0), rows.std(axis=0)
    scale = np.where(scale < 1e-9, 1.0, scale)
    scale[:FEATURES] /= _FEATURES_SCALE
    fitted = [_regression((rows - mean) / scale, right) for right in labels.T]
    weights = np.stack([coefficients for coefficients, _ in fitted]) / scale
    return Linear(weights, np.asarray([bias for _, bias in fitted]) - weights @ mean)


def _regression(rows: Array, right: Flags) -> tuple[Array, float]:
    from sklearn.linear_model import LogisticRegression

    if right.all() or not right.any():
        return np.zeros(rows.shape[1]), _SURE if right.any() else -_SURE
    model = LogisticRegression(C=_STRENGTH, max_iter=1000).fit(rows, right)
    return np.asarray(model.coef_[0], np.float64), float(model.intercept_[0])


def out_of_fold(rows: Array, labels: Flags, groups: Sequence[str], folds: int, seed: int = 0) -> Array:
    """Return (n, c): probabilities from regressions that were not fitted on the row's question, whose key is in `groups`.

    Shapes are those of `fit_linear`.
    """
    names = np.random.default_rng(seed).permutation(sorted(set(groups)))
    fold = {str(name): at % folds for at, name in enumerate(names)}
    fold_of_row = np.asarray([fold[group] for group in groups])
    chances = np.zeros(labels.shape)
    for number in range(folds):
        rest, here = np.flatnonzero(fold_of_row != number), np.flatnonzero(fold_of_row == number)
        if len(here) and len(rest):
            chances[here] = fit_linear(rows[rest], labels[rest]).probabilities(rows[here])
    return chances


def routes_of(chances: Array, threshold: float) -> Array:
    """Return (n,): each row's route number, from the probabilities (n, 3) that a route's answer is right."""
    return np.asarray([dearest(row, threshold) for row in chances.tolist()])


def best_threshold(chances: Array, labels: Flags, retrieve_at_most: float) -> float:
    """Return the threshold with the best answers within the share of questions retrieved for; the highest on ties.

    An answer is worth the mean of its label and of the probability that it is right: on a few hundred rows, the
    threshold with the most right answers is a matter of luck.

    Shapes: `chances`, out of fold, and `labels`, which routes were right, (n, 3).
    """
    worth, best, best_worth = (labels + chances) / 2, 1.0, -1.0
    for threshold in _GRID[::-1]:
        routes = routes_of(chances, float(threshold))
        reached = float(worth[np.arange(len(routes)), routes].mean())
        if (routes > 0).mean() <= retrieve_at_most and reached > best_worth + 1e-12:
            best, best_worth = float(threshold), reached
    return best


def routed(chances: Array, labels: Flags, threshold: float) -> dict[str, float]:
    """Return a router's accuracy and share retrieved, the accuracy of fixed routes, and the AUC of route 0; {} without rows."""
    if not len(labels):
        return {}
    routes = routes_of(chances, threshold)
    measures = {
        "accuracy": labels[np.arange(len(routes)), routes],
        "retrieved": routes > 0,
        "never": labels[:, 0],
        "always_one": labels[:, 1],
        "always_many": labels[:, 2],
        "ideal": labels.any(axis=1),
    }
    return {
        **{name: float(values.mean()) for name, values in measures.items()},
        "auc": auc(chances[:, 0], labels[:, 0]),
    }


def fit(job: Job) -> Trained:
    """Fit a judge or a router, choose its threshold and measure it."""
    settings = cast("LinearSettings", job.settings)
    labels, held_labels = _labels(job.train), _labels(job.held_out)
    if job.role == "judge" and (labels.all() or not labels.any()):
        raise UsageError("all drafts have the same label; a judge learns from both labels")
    rows = _read(job.train, settings)
    free = out_of_fold(rows, labels, [question_key(row) for row in job.train], settings.folds, settings.seed)
    weights = fit_linear(rows, labels)
    chances = weights.probabilities(_read(job.held_out, settings)) if job.held_out else np.zeros((0, labels.shape[1]))
    weights.write(job.folder)
    if isinstance(settings, RouterSettings):
        threshold, measured = best_threshold(free, labels, settings.retrieve_at_most), routed
    else:
        threshold, measured = best_balanced(free[:, 0], labels[:, 0]), judged
    measures = measured(free, labels, threshold)
    metrics = {
        **measured(chances, held_labels, threshold),
        **{f"out_of_fold_{name}": value for name, value in measures.items()},
    }
    return Trained(metrics=metrics, fields={"threshold": threshold, "drafts": settings.drafts})


def _labels(rows: Sequence[LabelledRow]) -> Flags:
    labels = [
        [row.right[name] for name in ROUTES] if isinstance(row, RouterRow) else [cast("JudgeRow", row).known]
        for row in rows
    ]
    return np.asarray(labels, np.bool_)


def _read(rows: Sequence[LabelledRow], settings: LinearSettings) -> Array:
    drafts = [cast("JudgeRow | RouterRow", row).draft if settings.drafts else "" for row in rows]
    return read_rows([(row.question, draft) for row, draft in zip(rows, drafts, strict=True)], settings.base)
