"""Confidence intervals and significance over the same questions: bootstrap, paired randomisation, Holm.

Sources: Efron and Tibshirani 1993 (percentile bootstrap); Noreen 1989 and Dror et al. 2018 (paired randomisation:
the sign of each question's difference is drawn; if all differences are of one size, as those of right or wrong
answers are, the draws are counted exactly, which is McNemar's exact test); Holm 1979.
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES, _ROUNDS, _SEED = 2000, 10_000, 0
_CELLS = 4_000_000
"""Random numbers in memory at once."""
_ROUNDING = 1e-9
"""Sums of differences that are as near as this are the same."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    n: int
    """How many values it is over."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same questions."""

    difference: Interval
    """The mean of the first less that of the second."""
    p: float
    """Two-sided p-value of the paired randomisation test, above 0."""


def bootstrap(values: Sequence[float]) -> Interval:
    """Return the mean of values, one a question, with its percentile-bootstrap interval.

    Raises:
        ValueError: There are no values, or one is NaN or infinite.
    """
    data = _checked(values)
    random = np.random.default_rng(_SEED)
    means = np.concatenate(
        [data[random.integers(0, data.size, (rows, data.size))].mean(axis=1) for rows in _blocks(_RESAMPLES, data.size)]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(data.mean()), float(low), float(high), int(data.size))


def compare(first: Sequence[float], second: Sequence[float]) -> Comparison:
    """Test whether two systems differ on the same questions, in the same order.

    The p-value is the share of sign flips whose mean difference is at least as large as the observed one, that
    one among them.

    Raises:
        ValueError: The lists differ in length or are empty, or a value is NaN or infinite.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}: not the same questions")
    gaps = _checked(first) - _checked(second)
    moved: NDArray[np.float64] = gaps[np.abs(gaps) > _ROUNDING]
    sizes = np.abs(moved)
    even = not sizes.size or float(sizes.max() - sizes.min()) <= _ROUNDING
    return Comparison(bootstrap(gaps.tolist()), _counted(moved) if even else _drawn(moved))


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values that allow for their number, by Holm's step-down rule."""
    adjusted, least = [0.0] * len(values), 0.0
    for rank, at in enumerate(sorted(range(len(values)), key=lambda one: values[one])):
        least = max(least, min(1.0, values[at] * (len(values) - rank)))
        adjusted[at] = least
    return adjusted


def _checked(values: Sequence[float]) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if not data.size or not np.isfinite(data).all():
        raise ValueError("there are no values, or one is no finite number")
    return data


def _counted(gaps: NDArray[np.float64]) -> float:
    """Return the share of all sign flips, of gaps of one size, that are at least as uneven."""
    total, up = gaps.size, int((gaps > 0).sum())
    tail = sum(math.comb(total, place) for place in range(max(up, total - up), total + 1))
    return max(min(1.0, float(2 * tail / 2**total)), sys.float_info.min)


def _drawn(gaps: NDArray[np.float64]) -> float:
    """Return the share of random sign flips that are at least as large as the gaps as they are."""
    random, total, extreme = np.random.default_rng(_SEED), float(gaps.sum()), 1
    for rows in _blocks(_ROUNDS, gaps.size):
        up = random.integers(0, 2, (rows, gaps.size), np.int8) @ gaps
        extreme += int((np.abs(2 * up - total) >= abs(total) - _ROUNDING).sum())
    return extreme / (_ROUNDS + 1)


def _blocks(total: int, width: int) -> list[int]:
    """Cut `total` rows of `width` into blocks that fit the memory."""
    size = max(1, min(total, _CELLS // width))
    return [min(size, total - start) for start in range(0, total, size)]
