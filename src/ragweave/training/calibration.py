"""From scores to decisions: probabilities that mean what they say, and a threshold to cut at.

Both are chosen on held-out rows. A decision is always `probability > threshold`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

NEUTRAL = 0.5
"""The threshold where there is nothing to choose it on."""

_GRID = np.linspace(0.3, 0.7, 81)
_BESIDE = 4
_STEPS = 100
_FOLDS = 2


class Platt(NamedTuple):
    """The map from a logit z to a probability: sigmoid(scale · z + shift)."""

    scale: float = 1.0
    """Above 0: the order of the scores stays."""
    shift: float = 0.0

    def probabilities(self, logits: Sequence[float]) -> list[float]:
        """Return the probabilities, in order."""
        values = self.scale * np.asarray(logits, dtype=np.float64) + self.shift
        return [float(one) for one in _sigmoid(values)]


def calibrate(logits: Sequence[float], labels: Sequence[bool]) -> Platt:
    """Return the Platt scaling of held-out logits, where it helps rows that it was not fitted on.

    It is fitted on one half and measured on the other, both ways; where the likelihood of the
    labels does not gain by it, and where a half has one class alone, the logits stay as they are.

    Source: Platt 1999, with his smoothed targets.
    """
    scores, truth = np.asarray(logits, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    gain = 0.0
    for fold in range(_FOLDS):
        rest = _in_fold(truth, fold)
        if len(set(truth[~rest].tolist())) < 2 or not rest.any():
            return Platt()
        fitted = _fit(scores[~rest], truth[~rest])
        gain += _loss(Platt(), scores[rest], truth[rest]) - _loss(fitted, scores[rest], truth[rest])
    return _fit(scores, truth) if gain > 0 else Platt()


def best_accuracy(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the threshold with the best accuracy; of several equally good the middle one."""

    def score(right_up: Values, wrong_up: Values, up: int, down: int) -> Values:
        return (right_up + down - wrong_up) / max(1, up + down)

    return _best(probabilities, labels, score)


def best_balanced(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the threshold with the best mean of both classes' accuracies, smoothed.

    It lies between 0.3 and 0.7. On few rows the single best cut is an accident of a row or two, so
    a cut counts as good as its neighbours within 0.02 are on average; of equal ones the middle one
    is taken.
    """
    values, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    if truth.all() or not truth.any():
        return NEUTRAL
    above = values > _GRID[:, None]
    balanced = (above[:, truth].mean(axis=1) + (~above[:, ~truth]).mean(axis=1)) / 2
    window = np.ones(2 * _BESIDE + 1) / (2 * _BESIDE + 1)
    smooth = np.convolve(np.pad(balanced, _BESIDE, mode="edge"), window, "valid")
    tied = np.flatnonzero(smooth >= smooth.max() - 1e-12)
    return float(_GRID[tied[(len(tied) - 1) // 2]])


def best_f1(probabilities: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the threshold with the best F1 of the positives; of several the middle one."""

    def score(right_up: Values, wrong_up: Values, up: int, down: int) -> Values:  # noqa: ARG001
        return 2 * right_up / np.maximum(right_up + wrong_up + up, 1)

    return _best(probabilities, labels, score)


def wanted_recall(probabilities: Sequence[float], labels: Sequence[bool], recall: float) -> float:
    """Return the highest threshold above which at least `recall` of the positives lie."""

    def score(right_up: Values, wrong_up: Values, up: int, down: int) -> Values:
        kept = right_up + wrong_up
        enough = right_up >= recall * up - 1e-9
        return np.where(enough, 1 + up + down - kept, kept / (kept + 1))

    return _best(probabilities, labels, score)


def _best(
    probabilities: Sequence[float],
    labels: Sequence[bool],
    score: Callable[[Values, Values, int, int], Values],
) -> float:
    """Return the cut with the best score, the middle one of equally good cuts.

    Cuts lie midway between neighbouring probabilities, and between them and 0 and 1.
    """
    values, truth = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.bool_)
    if not values.size:
        return NEUTRAL
    steps = np.unique(np.concatenate([[0.0], values, [1.0]]))
    cuts = (steps[1:] + steps[:-1]) / 2
    up, down = np.sort(values[truth]), np.sort(values[~truth])
    right_up = up.size - np.searchsorted(up, cuts, side="right")
    wrong_up = down.size - np.searchsorted(down, cuts, side="right")
    found = score(
        right_up.astype(np.float64), wrong_up.astype(np.float64), int(up.size), int(down.size)
    )
    tied = np.flatnonzero(found >= found.max() - 1e-12)
    return float(cuts[tied[(len(tied) - 1) // 2]])


def _in_fold(truth: NDArray[np.bool_], fold: int) -> NDArray[np.bool_]:
    """Return which rows are in a fold; each class is dealt out in turn, so both are in each."""
    place = np.where(truth, np.cumsum(truth) - 1, np.cumsum(~truth) - 1)
    return np.asarray(place % _FOLDS == fold)


def _fit(logits: Values, truth: NDArray[np.bool_]) -> Platt:
    """Fit by Newton's method with halved steps; a scale that would turn the order stays at 1."""
    up, down = int(truth.sum()), int((~truth).sum())
    targets = np.where(truth, (up + 1) / (up + 2), 1 / (down + 2))
    scale, shift = 1.0, 0.0
    for _ in range(_STEPS):
        chance = _sigmoid(scale * logits + shift)
        wrong, spread = chance - targets, chance * (1 - chance) + 1e-9
        gradient = np.array([(wrong * logits).sum(), wrong.sum()])
        cross = (spread * logits).sum()
        curve = np.array([[(spread * logits**2).sum(), cross], [cross, spread.sum()]])
        move = np.linalg.solve(curve + 1e-9 * np.eye(2), gradient)
        here, size = _entropy(scale, shift, logits, targets), 1.0
        while (
            size > 1e-6
            and _entropy(scale - size * move[0], shift - size * move[1], logits, targets) > here
        ):
            size /= 2
        scale, shift = scale - size * move[0], shift - size * move[1]
        if np.abs(size * move).max() < 1e-8:
            break
    return Platt(float(scale), float(shift)) if scale > 1e-3 else Platt()


def _loss(platt: Platt, logits: Values, truth: NDArray[np.bool_]) -> float:
    return _entropy(platt.scale, platt.shift, logits, truth.astype(np.float64))


def _entropy(scale: float, shift: float, logits: Values, targets: Values) -> float:
    values = scale * logits + shift
    return float((np.logaddexp(0.0, values) - targets * values).sum())


def _sigmoid(values: Values) -> Values:
    low = np.exp(-np.abs(values))
    return np.where(values >= 0, 1 / (1 + low), low / (1 + low))
