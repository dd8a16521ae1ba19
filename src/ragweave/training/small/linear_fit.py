"""Fitting a linear judge: two logistic regressions whose logits are added.

Features and cosines are few and tell much each, the vectors' columns are many and tell little, so
each block has a penalty of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ragweave.tools.parts.judge.reading import Read
from ragweave.tools.parts.judge.reference import Array
from ragweave.training.small.linear_settings import LinearSettings

Labels = NDArray[np.bool_]

_ITERATIONS = 2000
_CONSTANT = 1e-9


class Line(NamedTuple):
    """A fitted judge before calibration."""

    surface: Array
    meaning: Array
    bias: float

    def logits(self, read: Read) -> Array:
        """Return the logit of each row."""
        total: Array = read.surface @ self.surface + read.meaning @ self.meaning + self.bias
        return total


def fit_line(read: Read, labels: Labels, settings: LinearSettings) -> Line:
    """Fit both blocks; the rows must have both labels."""
    surface, first = fit_block(read.surface, labels, settings.surface_strength)
    meaning, second = fit_block(read.meaning, labels, settings.meaning_strength)
    return Line(surface, meaning, first + second)


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
    read: Read,
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
            line = fit_line(_rows(read, train), labels[train], settings)
            found[repeat, rest] = line.logits(_rows(read, rest))
    return found


def _rows(read: Read, chosen: NDArray[np.intp]) -> Read:
    return Read(read.surface[chosen], read.meaning[chosen])


def _groups(groups: Sequence[str], chosen: Labels) -> set[str]:
    return {group for group, one in zip(groups, chosen, strict=True) if one}
