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


def test_right_and_wrong_answers_are_counted_exactly() -> None:
    """McNemar's exact test: of 14 questions that only one got right, it got 12."""
    first, second = [1.0] * 12 + [0.0] * 2 + [1.0] * 9, [0.0] * 12 + [1.0] * 2 + [1.0] * 9
    assert compare(first, second).p == pytest.approx(2 * (1 + 14 + 91) / 2**14, rel=1e-12)
    assert compare([1.0] * 100, [0.0] * 100).p == pytest.approx(2**-99)
    assert compare([1.0, 0.0], [0.0, 1.0]).p == 1.0
    assert 0 < compare([0.3] * 5000, [0.2] * 5000).p < 1e-300


def test_more_flips_are_drawn_where_next_to_none_was_as_large() -> None:
    random = np.random.default_rng(2)
    first, second = 0.9 + random.random(60) / 10, random.random(60) / 10
    assert compare(first, second).p == pytest.approx(1 / 10_001)
    assert compare(first, second, most=105_600).p == pytest.approx(1 / 105_601)
    near = random.permutation(first)
    assert compare(first, near, most=105_600).p == compare(first, near).p > 0.01


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
