"""Thresholds and measures of components that score."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
_ROUNDING = 1 - 1e-4
"""Scores differ in their last bits from batch to batch."""


def auc(scores: Array, labels: Flags) -> float:
    """Return the area under the ROC curve: how often a right one scores above a wrong one; ties count half."""
    order = np.unique(scores, return_inverse=True)[1]
    counts = np.bincount(order)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[order]
    right, wrong = int(labels.sum()), int((~labels).sum())
    if not right or not wrong:
        return 0.5
    return float((ranks[labels].sum() - right * (right + 1) / 2) / (right * wrong))


def best_balanced(chances: Array, labels: Flags) -> float:
    """Return the threshold with the best mean of both classes' accuracies, between two scores; 0.5 of no rows."""
    if labels.all() or not labels.any():
        return 0.5
    scores = np.unique(chances)
    cuts = np.concatenate([scores[:1] / 2, (scores[:-1] + scores[1:]) / 2])
    worth = [
        (labels & (chances > cut)).sum() / labels.sum() + (~labels & (chances <= cut)).sum() / (~labels).sum()
        for cut in cuts
    ]
    return float(cuts[int(np.argmax(worth))])


def judged(chances: Array, labels: Flags, threshold: float) -> dict[str, float]:
    """Return a judge's accuracy, that of the larger class, and AUC; {} of no rows."""
    if not len(labels):
        return {}
    share = float(labels.mean())
    accuracy = float(((chances > threshold) == labels).mean())
    return {"accuracy": accuracy, "larger_class": max(share, 1 - share), "auc": auc(chances, labels)}


def recall_threshold(scores: Sequence[Sequence[float]], keep: Sequence[Sequence[bool]], recall: float) -> float:
    """Return the highest threshold at which the mean recall of the sentences to keep is `recall`; 0.5 of no rows.

    Args:
        scores: Of each question's sentences.
        keep: Which are to be kept, at least one of each question.
        recall: In [0, 1].
    """
    found = sorted(
        (
            (score, 1 / sum(own) / len(keep))
            for each, own in zip(scores, keep, strict=True)
            for score, one in zip(each, own, strict=True)
            if one
        ),
        reverse=True,
    )
    reached, least = 0.0, 0.5
    for score, weight in found:
        reached, least = reached + weight, score * _ROUNDING
        if reached >= recall - 1e-9:
            break
    return least


def filtered(
    scores: Sequence[Sequence[float]], keep: Sequence[Sequence[bool]], sizes: Sequence[Sequence[int]], threshold: float
) -> dict[str, float]:
    """Return how often the best sentence, or one of the best two, is to be kept, and what the threshold keeps.

    Args:
        scores: Of each question's sentences.
        keep: Which are to be kept, at least one of each question.
        sizes: Words of each sentence.
        threshold: Sentences at or above it are kept.

    Returns:
        `first`, `in_two`; mean `recall` and `precision` of sentences; `words_kept`, a share. {} of no rows.
    """
    rows = [
        _filtered(np.asarray(s), np.asarray(k), np.asarray(w), threshold)
        for s, k, w in zip(scores, keep, sizes, strict=True)
    ]
    names = ("first", "in_two", "recall", "precision", "words_kept")
    return dict(zip(names, map(float, np.mean(rows, axis=0)), strict=True)) if rows else {}


def _filtered(scores: Array, keep: Flags, sizes: NDArray[np.int_], threshold: float) -> list[float]:
    best = np.argsort(-scores, kind="stable")[:2]
    taken = scores >= threshold * (1 - 1e-9)
    hits = (taken & keep).sum()
    return [
        keep[best[0]],
        keep[best].any(),
        hits / keep.sum(),
        hits / max(taken.sum(), 1),
        sizes[taken].sum() / sizes.sum(),
    ]


def gate_threshold(
    uncertainties: Sequence[float], right: Sequence[tuple[float, float]], retrieve_at_most: float = 0.6
) -> float:
    """Return the uncertainty above which to retrieve: the option `threshold` of a gate on your own questions.

    The one with the most right answers within the share that is retrieved for; the highest of equals.

    Args:
        uncertainties: Of each question's answer without retrieval; infinite if it is retrieved for in any case.
        right: Whether that answer is right, and whether the one after retrieval is; or scores.
        retrieve_at_most: Greatest share of the questions retrieved for.
    """
    values, scores = np.asarray(uncertainties, np.float64), np.asarray(right, np.float64)
    finite = np.unique(values[np.isfinite(values)])
    cuts = [*finite[::-1], min(-1.0, finite.min(initial=0.0) - 1.0)]  # below all: always retrieve
    best, most = float(cuts[0]), -1.0
    for cut in cuts:
        reached = float(np.where(values > cut, scores[:, 1], scores[:, 0]).mean())
        if (values > cut).mean() <= retrieve_at_most and reached > most + 1e-12:
            best, most = float(cut), reached
    return best
