"""Confidence intervals and significance: the bootstrap and paired randomisation.

Sources: Efron & Tibshirani 1993 (percentile bootstrap); Noreen 1989 and Dror et al. 2018 (paired
randomisation, the sign flip of each question's difference; where all differences are of one size,
as those of right or wrong answers are, it is counted exactly, which is McNemar's exact test).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_CELLS = 4_000_000
"""Random numbers held at once: bounds memory whatever the number of questions."""

_FEW = 10
"""Extreme sign flips that tell p well enough; where there were fewer, more are drawn."""

_ROUNDING = 1e-9
"""Sums of differences that are as near as this are the same."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its confidence interval."""

    mean: float
    low: float
    high: float
    n: int
    """Questions that it is over."""


def bootstrap(
    values: Sequence[float],
    *,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    aggregate: Callable[[Sequence[float]], float] | None = None,
) -> Interval:
    """Return the mean (or what `aggregate` makes of the values) with its percentile-bootstrap interval.

    Args:
        values: One value a question.
        level: Confidence level.
        resamples: Samples drawn with replacement.
        seed: Seed of the random numbers; the same seed gives the same interval.
        aggregate: Makes one number of the values; None: their mean.

    Raises:
        ValueError: There are no values, or one is NaN or infinite.
    """
    data = np.asarray(values, dtype=np.float64)
    if not data.size:
        raise ValueError("no values")
    if not np.isfinite(data).all():
        raise ValueError("a value is no finite number")
    random = np.random.default_rng(seed)
    means = np.concatenate(
        [
            _aggregated(data[random.integers(0, data.size, (rows, data.size))], aggregate)
            for rows in _blocks(resamples, data.size)
        ]
    )
    tail = (1 - level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    whole = float(_aggregated(data[np.newaxis], aggregate)[0])
    return Interval(whole, float(low), float(high), int(data.size))


def _aggregated(
    rows: NDArray[np.float64], aggregate: Callable[[Sequence[float]], float] | None
) -> NDArray[np.float64]:
    """Return one number a row."""
    if aggregate is None:
        means: NDArray[np.float64] = rows.mean(axis=1)
        return means
    return np.asarray([aggregate(row.tolist()) for row in rows], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two methods on the same questions."""

    difference: float
    """Mean of the first less mean of the second."""
    low: float
    high: float
    """95% bootstrap interval of the difference."""
    p: float
    """Two-sided p-value of the paired randomisation test."""
    n: int


def compare(
    first: Sequence[float],
    second: Sequence[float],
    *,
    rounds: int = 10_000,
    most: int = 0,
    seed: int = 0,
) -> Comparison:
    """Test whether two methods differ on the same questions.

    The p-value is the share of sign flips whose mean difference is at least as large as the one
    observed: of all of them where the questions differ by one size, such as 1, else of random ones,
    the observed one among them. So it is never 0.

    Args:
        first: One value a question.
        second: The other method's values, question by question.
        rounds: Random sign flips.
        most: Random sign flips where next to none of those was as large. The smallest p is 1 in
            as many: for a p that is to be corrected for many tests.
        seed: Seed of the random numbers.

    Raises:
        ValueError: The lists differ in length or are empty, or a value is NaN or infinite.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} values against {len(second)}: not the same questions")
    one, other = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError("a value is no finite number")
    gaps = one - other
    interval = bootstrap(gaps.tolist(), seed=seed)
    moved: NDArray[np.float64] = gaps[np.abs(gaps) > _ROUNDING]
    p = _counted(moved) if _is_even(np.abs(moved)) else _drawn(moved, rounds, most, seed)
    return Comparison(interval.mean, interval.low, interval.high, p, int(gaps.size))


def _is_even(sizes: NDArray[np.float64]) -> bool:
    return not sizes.size or float(sizes.max() - sizes.min()) <= _ROUNDING


def _counted(gaps: NDArray[np.float64]) -> float:
    """Return the share of all sign flips of gaps of one size that are at least as uneven."""
    total, up = gaps.size, int((gaps > 0).sum())
    place = max(up, total - up)
    ways = tail = math.comb(total, place)
    for more in range(place, total):
        ways = ways * (total - more) // (more + 1)
        tail += ways
    return max(min(1.0, float(2 * tail / 2**total)), sys.float_info.min)


def _drawn(gaps: NDArray[np.float64], rounds: int, most: int, seed: int) -> float:
    """Return the share of random sign flips that are at least as large as the gaps as they are."""
    random = np.random.default_rng(seed)
    extreme = _extreme(gaps, rounds, random)
    if extreme < _FEW and most > rounds:
        extreme += _extreme(gaps, most - rounds, random)
        rounds = most
    return (extreme + 1) / (rounds + 1)


def _extreme(gaps: NDArray[np.float64], rounds: int, random: np.random.Generator) -> int:
    total = float(gaps.sum())
    observed = abs(total) - _ROUNDING
    found, bytes_a_row = 0, -(-gaps.size // 8)
    for rows in _blocks(rounds, gaps.size):
        drawn = np.frombuffer(random.bytes(rows * bytes_a_row), np.uint8)
        kept = np.unpackbits(drawn.reshape(rows, bytes_a_row), axis=1, count=gaps.size)
        found += int((np.abs(2 * (kept @ gaps) - total) >= observed).sum())
    return found


def _blocks(total: int, width: int) -> list[int]:
    """Cut `total` rows of `width` into blocks of at most `_CELLS` cells."""
    size = max(1, min(total, _CELLS // width))
    return [min(size, total - start) for start in range(0, total, size)]
