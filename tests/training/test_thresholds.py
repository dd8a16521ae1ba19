"""Thresholds and probabilities from held-out rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragweave.training.measures import (
    NEUTRAL,
    Platt,
    best_accuracy,
    best_balanced,
    best_f1,
    calibrate,
    right,
    wanted_recall,
)

rows = st.lists(
    st.tuples(st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0]), st.booleans()),
    min_size=1,
    max_size=30,
)


def f1(values, labels, threshold):
    kept = [value > threshold for value in values]
    both = sum(k and label for k, label in zip(kept, labels, strict=True))
    return 2 * both / max(1, sum(kept) + sum(labels))


@given(rows, st.floats(0, 1))
def test_no_threshold_is_better_than_the_one_chosen(drawn, other):
    values, labels = [value for value, _ in drawn], [label for _, label in drawn]
    chosen = best_accuracy(values, labels)
    assert 0 <= chosen <= 1
    assume(0 < other < 1)
    assert sum(right(values, labels, chosen)) >= sum(right(values, labels, other))
    assert f1(values, labels, best_f1(values, labels)) >= f1(values, labels, other) - 1e-12


@given(rows, st.sampled_from([0.5, 0.8, 1.0]))
def test_a_wanted_recall_is_reached_where_any_threshold_reaches_it(drawn, recall):
    values, labels = [value for value, _ in drawn], [label for _, label in drawn]
    positives = [value for value, label in drawn if label and value > 0]
    assume(positives and len(positives) == sum(labels))
    chosen = wanted_recall(values, labels, recall)
    assert sum(value > chosen for value in positives) >= recall * sum(labels) - 1e-9
    higher = [value for value in positives if value > chosen]
    stricter = min(higher) if higher else 1.0
    assert sum(value > stricter for value in positives) < recall * sum(labels)


def test_equally_good_thresholds_give_the_middle_one():
    assert best_accuracy([0.2, 0.8], [False, True]) == 0.5
    assert best_accuracy([0.1, 0.3, 0.5, 0.7], [True, False, True, False]) == pytest.approx(0.4)
    assert best_accuracy([], []) == NEUTRAL


@pytest.mark.parametrize("seed", range(3))
def test_platt_finds_the_scale_and_shift_that_made_the_labels(seed):
    random = np.random.default_rng(seed)
    logits = random.normal(scale=4, size=4000)
    labels = random.random(4000) < 1 / (1 + np.exp(-(0.4 * logits - 1)))
    found = calibrate(list(logits), list(labels))
    assert found.scale == pytest.approx(0.4, abs=0.06)
    assert found.shift == pytest.approx(-1, abs=0.15)


def test_calibration_agrees_with_scikit_learn():
    linear = pytest.importorskip("sklearn.linear_model")
    random = np.random.default_rng(5)
    logits = random.normal(scale=3, size=3000)
    labels = random.random(3000) < 1 / (1 + np.exp(-(0.5 * logits + 0.5)))
    fitted = linear.LogisticRegression(C=1e9).fit(logits[:, None], labels)
    found = calibrate(list(logits), list(labels))
    assert found.scale == pytest.approx(fitted.coef_[0, 0], abs=0.02)
    assert found.shift == pytest.approx(fitted.intercept_[0], abs=0.02)


@pytest.mark.parametrize(
    ("logits", "labels"),
    [
        ([1.0, -1.0, 2.0], [True, True, True]),
        ([1.0], [False]),
        ([], []),
        ([1.0, 2.0, 3.0], [True, False, False]),
    ],
)
def test_too_little_to_calibrate_on_leaves_the_logits_alone(logits, labels):
    assert calibrate(logits, labels) == Platt()


@given(st.lists(st.tuples(st.floats(-30, 30), st.booleans()), max_size=40))
def test_calibration_never_turns_the_order_and_gives_probabilities(drawn):
    platt = calibrate([logit for logit, _ in drawn], [label for _, label in drawn])
    assert platt.scale > 0
    ranked = platt.probabilities(sorted(logit for logit, _ in drawn))
    assert ranked == sorted(ranked)
    assert all(0 <= one <= 1 for one in ranked)


def test_extreme_logits_overflow_nothing():
    assert Platt().probabilities([-1000.0, 0.0, 1000.0]) == [0.0, 0.5, 1.0]


def balanced(values, labels, threshold):
    up = [value > threshold for value, label in zip(values, labels, strict=True) if label]
    down = [value <= threshold for value, label in zip(values, labels, strict=True) if not label]
    return (np.mean(up) + np.mean(down)) / 2


def test_the_balanced_threshold_parts_classes_of_unequal_size():
    values = [0.35] * 90 + [0.45] * 10 + [0.55] * 10
    labels = [False] * 100 + [True] * 10
    assert balanced(values, labels, best_balanced(values, labels)) == 1.0
    assert best_balanced(values, [True] * 110) == NEUTRAL


def test_a_lucky_cut_between_two_rows_is_passed_over():
    """A single best cut at 0.4, and a broad, almost equally good stretch around 0.6."""
    random = np.random.default_rng(0)
    up, down = random.uniform(0.62, 0.9, 95), random.uniform(0.1, 0.399, 95)
    values = [*up, *down, *[0.401] * 5, 0.409, *[0.4095] * 4]
    labels = [True] * 95 + [False] * 95 + [True] * 5 + [False] * 5
    chosen = best_balanced(values, labels)
    assert 0.42 < chosen < 0.62
    assert balanced(values, labels, chosen) > 0.94


@given(rows)
def test_the_balanced_threshold_stays_in_the_middle(drawn):
    chosen = best_balanced([value for value, _ in drawn], [label for _, label in drawn])
    assert 0.3 <= chosen <= 0.7
