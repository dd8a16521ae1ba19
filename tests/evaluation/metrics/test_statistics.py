"""Intervals and tests hold what they promise on data whose truth is known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ragweave.evaluation.metrics import bootstrap, compare


def test_the_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(0)
    inside = 0
    for trial in range(200):
        found = bootstrap((random.random(80) < 0.3).tolist(), resamples=400, seed=trial)
        inside += found.low <= 0.3 <= found.high
    assert 0.88 <= inside / 200 <= 0.99


def test_a_seed_gives_the_same_interval_and_blocks_do_not_matter() -> None:
    values = [0.0, 1.0, 1.0, 0.5]
    assert bootstrap(values, seed=3) == bootstrap(values, seed=3)
    wide = bootstrap([0.0, 1.0] * 50_000, resamples=100)
    assert wide.n == 100_000
    assert wide.high - wide.low < 0.02


def test_equal_methods_do_not_differ() -> None:
    found = compare([1.0, 0.0, 1.0], [1.0, 0.0, 1.0])
    assert (found.difference, found.p) == (0.0, 1.0)


def test_p_is_that_of_the_exact_test_where_all_flips_can_be_counted() -> None:
    first = [1.0, 1.0, 1.0, 0.6, 1.0, 0.0, 1.0, 0.9]
    second = [0.0, 0.2, 1.0, 0.0, 0.5, 0.3, 0.1, 0.0]
    gaps = [one - other for one, other in zip(first, second, strict=True)]
    flips = [
        abs(sum(sign * gap for sign, gap in zip(signs, gaps, strict=True)))
        for signs in itertools.product((-1, 1), repeat=len(gaps))
    ]
    exact = sum(flip >= abs(sum(gaps)) - 1e-12 for flip in flips) / len(flips)
    assert compare(first, second, rounds=40_000).p == pytest.approx(exact, abs=0.01)


def test_the_test_rejects_rarely_where_nothing_differs() -> None:
    random = np.random.default_rng(1)
    low = sum(
        compare(random.random(30).tolist(), random.random(30).tolist(), rounds=400).p < 0.05
        for _ in range(200)
    )
    assert low / 200 < 0.11


def test_other_questions_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="2 values against 1"):
        compare([1.0, 0.0], [1.0])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        bootstrap([1.0, bad])
    for first, second in (([1.0, bad], [0.0, 0.0]), ([0.0, 0.0], [bad, 1.0]), ([bad], [bad])):
        with pytest.raises(ValueError, match="finite"):
            compare(first, second)
