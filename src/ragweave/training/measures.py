"""Calibration, thresholds and measures of small parts, all on held-out rows.

First the way from scores to decisions: calibrated probabilities, and a threshold; a decision is
always `probability > threshold`. Then how well a judge separates known from unknown drafts, and a
filter the sentences to keep from the others, each with a bootstrap interval: over rows for a
judge, over questions for a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.statistics import Interval, bootstrap

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


_CELLS = 4_000_000
_OF_KEPT = ("recall", "precision", "tokens_kept")


class Marked(NamedTuple):
    """A question's sentences, in reading order, as a filter scored them."""

    scores: Sequence[float]
    gold: Sequence[bool]
    """Whether the sentence is one to keep."""
    sizes: Sequence[int]
    """Length of each sentence, in any one unit."""
    may_be_none: bool = False
    """Whether nothing is passed on where nothing is kept; False: everything is (the fallback)."""


def auc(scores: Sequence[float], labels: Sequence[bool]) -> float:
    """Return the area under the ROC curve: how often a positive outscores a negative, ties half.

    Raises:
        ValueError: All labels are the same, or the lists differ in length.
    """
    return float(_aucs(*_grouped(scores, labels), np.ones((1, len(scores))))[0])


def auc_interval(
    scores: Sequence[float],
    labels: Sequence[bool],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Interval:
    """Return the AUC with its percentile-bootstrap interval over rows.

    Samples that drew rows of one class alone have no AUC and are left out.

    Raises:
        ValueError: All labels are the same, or the lists differ in length.
    """
    size = len(scores)
    order, positive, group = _grouped(scores, labels)
    whole = float(_aucs(order, positive, group, np.ones((1, size)))[0])
    random = np.random.default_rng(seed)
    rows = max(1, min(resamples, _CELLS // size))
    drawn: list[NDArray[np.float64]] = []
    for first in range(0, resamples, rows):
        count = min(rows, resamples - first)
        times = random.multinomial(size, np.full(size, 1 / size), count).astype(np.float64)
        drawn.append(_aucs(order, positive, group, times))
    values = np.concatenate(drawn)
    tail = (1 - level) / 2
    low, high = np.nanquantile(values, [tail, 1 - tail])
    return Interval(whole, float(low), float(high), size)


def right(probabilities: Sequence[float], labels: Sequence[bool], threshold: float) -> list[float]:
    """Return, a row, 1.0 where `probability > threshold` is what the label says, else 0.0."""
    return [
        float((probability > threshold) == label)
        for probability, label in zip(probabilities, labels, strict=True)
    ]


def hit(scores: Sequence[float], gold: Sequence[bool], within: int = 1) -> float:
    """Return 1.0 if a sentence to keep is among the `within` best; of equal ones the first is best."""
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    return float(any(gold[i] for i in order[:within]))


def recall(keeps: Sequence[bool], gold: Sequence[bool]) -> float:
    """Return the share of the sentences to keep that are kept; 1.0 where there are none."""
    wanted = sum(gold)
    return sum(k and g for k, g in zip(keeps, gold, strict=True)) / wanted if wanted else 1.0


def precision(keeps: Sequence[bool], gold: Sequence[bool]) -> float | None:
    """Return the share of the kept sentences that are to be kept; None where none is kept."""
    kept = sum(keeps)
    return sum(k and g for k, g in zip(keeps, gold, strict=True)) / kept if kept else None


def size_kept(keeps: Sequence[bool], sizes: Sequence[int], *, may_be_none: bool = False) -> float:
    """Return the share of the text that is passed on.

    Where nothing is kept that is all of it (the fallback), or nothing where that may be.
    """
    total = sum(sizes)
    if not any(keeps) or not total:
        return 0.0 if may_be_none else 1.0
    return sum(size for keep, size in zip(keeps, sizes, strict=True) if keep) / total


def judge_measures(
    probabilities: Sequence[float], labels: Sequence[bool], threshold: float
) -> dict[str, Interval]:
    """Return accuracy, the larger class's share (`majority`) and, with two classes, AUC."""
    share = sum(labels) / len(labels)
    larger = [float(label == (share >= 0.5)) for label in labels]
    found = {
        "accuracy": bootstrap(right(probabilities, labels, threshold)),
        "majority": bootstrap(larger),
    }
    if 0 < share < 1:
        found["auc"] = auc_interval(probabilities, labels)
    return found


def filter_measures(
    questions: Sequence[Marked], threshold: float, top: int | None = None
) -> dict[str, Interval]:
    """Return the filter's measures, each a mean over questions.

    `first` and `in_two`: a sentence to keep is the best, or among the best two (over questions
    that have one). `recall` and `precision`: of the sentences that are kept. `tokens_kept`:
    share of the text passed on, all of it where nothing is kept, unless none may be left (whole
    passages); `empty`: how often nothing is kept.

    Args:
        questions: Their sentences.
        threshold: What a kept sentence's score exceeds.
        top: Most sentences kept of a question; None: all above the threshold.
    """
    keeps = [_kept(one.scores, threshold, top) for one in questions]
    answerable = [one for one in questions if any(one.gold)]
    both = list(zip(questions, keeps, strict=True))
    values: dict[str, list[float]] = {
        "first": [hit(one.scores, one.gold) for one in answerable],
        "in_two": [hit(one.scores, one.gold, 2) for one in answerable],
        "recall": [recall(kept, one.gold) for one, kept in both if any(one.gold)],
        "precision": [p for one, kept in both if (p := precision(kept, one.gold)) is not None],
        "tokens_kept": [
            size_kept(kept, one.sizes, may_be_none=one.may_be_none) for one, kept in both
        ],
        "empty": [float(not any(kept)) for kept in keeps],
    }
    return {name: bootstrap(found) for name, found in values.items() if found}


def card_measures(questions: Sequence[Marked], threshold: float) -> dict[str, Interval]:
    """Return a filter's measures with all above the threshold kept, and with the best one alone.

    The names of recall, precision and share of the text end in `_above_threshold` or in `_top_1`:
    the method `filco` keeps the best one unless `top` says otherwise. The others do not differ.
    """
    every, best = (filter_measures(questions, threshold, top) for top in (None, 1))
    return {
        **{name: one for name, one in every.items() if name not in _OF_KEPT},
        **{f"{name}_top_1": one for name, one in best.items() if name in _OF_KEPT},
        **{f"{name}_above_threshold": one for name, one in every.items() if name in _OF_KEPT},
    }


def as_json(measures: Mapping[str, Interval], digits: int = 4) -> dict[str, Any]:
    """Return measures as plain values for a card: `{"auc": {"mean": …, "low": …, …}}`."""
    return {
        name: {key: round(value, digits) for key, value in asdict(interval).items()}
        for name, interval in measures.items()
    }


def _kept(scores: Sequence[float], threshold: float, top: int | None) -> list[bool]:
    order = sorted(range(len(scores)), key=lambda i: -scores[i])[:top]
    chosen = {i for i in order if scores[i] > threshold}
    return [i in chosen for i in range(len(scores))]


def _grouped(
    scores: Sequence[float], labels: Sequence[bool]
) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.intp]]:
    """Return the order of rising scores, the labels in it, and where each group of ties begins."""
    if len(scores) != len(labels):
        raise ValueError(f"{len(scores)} scores for {len(labels)} labels")
    if len(set(map(bool, labels))) < 2:
        raise ValueError("an AUC needs positives and negatives")
    values = np.asarray(scores, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    return order, np.asarray(labels, dtype=np.bool_)[order], starts


def _aucs(
    order: NDArray[np.intp],
    positive: NDArray[np.bool_],
    starts: NDArray[np.intp],
    times: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the AUC of each sample; `times` is (samples, rows): how often it drew each row."""
    weights = times[:, order]
    up = np.add.reduceat(weights * positive, starts, axis=1)
    down = np.add.reduceat(weights * ~positive, starts, axis=1)
    below = np.cumsum(down, axis=1) - down
    pairs = up.sum(axis=1) * down.sum(axis=1)
    won = (up * (below + down / 2)).sum(axis=1)
    values: NDArray[np.float64] = np.full(len(times), np.nan)
    np.divide(won, pairs, out=values, where=pairs > 0)
    return values
