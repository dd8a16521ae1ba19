"""Confidence intervals and tests over the same questions: bootstrap, paired randomisation, Holm.

Sources: Efron and Tibshirani 1993 (percentile bootstrap); Noreen 1989 and Dror et al. 2018 (paired randomisation:
the sign of each question's difference is drawn; where all differences have the same size, as with right and wrong
answers, the test is exact: McNemar's); Holm 1979.
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
"""Sums of differences that are this close count as equal."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its 95 % confidence interval."""

    mean: float
    low: float
    high: float
    n: int
    """Number of values."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same questions."""

    difference: Interval
    """The first system's mean minus the second's."""
    p: float
    """Two-sided p-value of the paired randomisation test, above 0."""


def bootstrap(values: Sequence[float]) -> Interval:
    """Return the mean of the values, one per question, with its percentile-bootstrap interval.

    Raises:
        ValueError: There are no values, or a value is NaN or infinite.
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

    The p-value is the share of sign flips whose mean difference is at least as large as the observed one, which
    itself counts.

    Raises:
        ValueError: The lists differ in length or are empty, or a value is NaN or infinite.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}: not the same questions")
    differences = _checked(first) - _checked(second)
    nonzero: NDArray[np.float64] = differences[np.abs(differences) > _ROUNDING]
    sizes = np.abs(nonzero)
    same_size = not sizes.size or float(sizes.max() - sizes.min()) <= _ROUNDING
    p = _exact_p(nonzero) if same_size else _drawn_p(nonzero)
    return Comparison(bootstrap(differences.tolist()), p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number, by Holm's step-down rule."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, p_values[at] * (len(p_values) - rank)))
        adjusted[at] = largest
    return adjusted


def _checked(values: Sequence[float]) -> NDArray[np.float64]:
    data = np.asarray(values, dtype=np.float64)
    if not data.size or not np.isfinite(data).all():
        raise ValueError("there are no values, or a value is not a finite number")
    return data


def _exact_p(differences: NDArray[np.float64]) -> float:
    """Return the share of all sign flips that are at least as uneven, for differences of one size."""
    total, up = differences.size, int((differences > 0).sum())
    tail = sum(math.comb(total, positive) for positive in range(max(up, total - up), total + 1))
    return max(min(1.0, float(2 * tail / 2**total)), sys.float_info.min)


def _drawn_p(differences: NDArray[np.float64]) -> float:
    """Return the share of random sign flips whose sum is at least as large as the observed one."""
    random, total, extreme = np.random.default_rng(_SEED), float(differences.sum()), 1
    for rows in _blocks(_ROUNDS, differences.size):
        up = random.integers(0, 2, (rows, differences.size), np.int8) @ differences
        extreme += int((np.abs(2 * up - total) >= abs(total) - _ROUNDING).sum())
    return extreme / (_ROUNDS + 1)


def _blocks(total: int, width: int) -> list[int]:
    """Cut `total` rows of `width` into blocks that fit into memory."""
    size = max(1, min(total, _CELLS // width))
    return [min(size, total - start) for start in range(0, total, size)]
