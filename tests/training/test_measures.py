"""Measures of small parts, against scikit-learn and by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ragweave.training.measures import (
    Marked,
    as_json,
    auc,
    auc_interval,
    card_measures,
    filter_measures,
    hit,
    judge_measures,
    precision,
    recall,
    right,
    size_kept,
)

rows = st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=40)


@given(rows)
def test_auc_is_that_of_scikit_learn_ties_and_all(drawn):
    sklearn = pytest.importorskip("sklearn.metrics")
    scores, labels = [float(score) for score, _ in drawn], [label for _, label in drawn]
    assume(len(set(labels)) == 2)
    assert auc(scores, labels) == pytest.approx(sklearn.roc_auc_score(labels, scores))


@given(rows)
def test_auc_turns_with_the_labels_and_keeps_under_any_rising_map(drawn):
    scores, labels = [float(score) for score, _ in drawn], [label for _, label in drawn]
    assume(len(set(labels)) == 2)
    assert auc(scores, [not label for label in labels]) == pytest.approx(1 - auc(scores, labels))
    assert auc([score**3 for score in scores], labels) == pytest.approx(auc(scores, labels))


def test_auc_needs_both_classes_and_a_label_a_score():
    with pytest.raises(ValueError, match="positives and negatives"):
        auc([1.0, 2.0], [True, True])
    with pytest.raises(ValueError, match="2 scores for 1 labels"):
        auc([1.0, 2.0], [True])


def test_the_interval_holds_the_auc_and_is_that_of_resampled_rows():
    random = np.random.default_rng(3)
    labels = random.random(120) < 0.4
    scores = random.normal(size=120) + labels
    found = auc_interval(list(scores), list(labels), resamples=400)
    drawn = [random.integers(0, 120, 120) for _ in range(400)]
    plain = np.quantile([auc(list(scores[i]), list(labels[i])) for i in drawn], [0.025, 0.975])
    assert found.mean == pytest.approx(auc(list(scores), list(labels)))
    assert (found.low, found.high) == pytest.approx(tuple(plain), abs=0.03)
    assert found.n == 120
    assert found == auc_interval(list(scores), list(labels), resamples=400)


def test_a_few_rows_have_an_interval_though_some_samples_have_one_class():
    found = auc_interval([0.1, 0.9, 0.8], [False, True, True])
    assert (found.low, found.mean, found.high) == (1.0, 1.0, 1.0)


def test_decisions_are_strictly_above_the_threshold():
    assert right([0.5, 0.6, 0.4], [True, True, False], 0.5) == [0.0, 1.0, 1.0]


def test_hits_look_at_the_best_and_break_ties_by_reading_order():
    assert hit([0.2, 0.9, 0.5], [False, False, True]) == 0.0
    assert hit([0.2, 0.9, 0.5], [False, False, True], 2) == 1.0
    assert hit([0.5, 0.5], [True, False]) == 1.0
    assert hit([], []) == 0.0


def test_recall_precision_and_size_of_what_is_kept():
    keeps, gold = [True, False, True, False], [True, True, False, False]
    assert recall(keeps, gold) == 0.5
    assert precision(keeps, gold) == 0.5
    assert recall([False], [False]) == 1.0
    assert precision([False], [True]) is None
    assert size_kept(keeps, [10, 20, 30, 40]) == pytest.approx(0.4)
    assert size_kept([False, False], [10, 20]) == 1.0
    assert size_kept([False, False], [10, 20], may_be_none=True) == 0.0
    assert size_kept([False, True], [10, 30], may_be_none=True) == 0.75


def test_judge_measures_stand_beside_the_majority():
    found = judge_measures([0.9, 0.8, 0.3, 0.6], [True, True, True, False], 0.5)
    assert found["accuracy"].mean == 0.5
    assert found["majority"].mean == 0.75
    assert found["auc"].mean == pytest.approx(2 / 3)
    assert "auc" not in judge_measures([0.9, 0.8], [True, True], 0.5)


def test_filter_measures_are_means_over_questions():
    found = filter_measures(
        [
            Marked([0.9, 0.1, 0.6], [True, False, False], [10, 10, 20]),
            Marked([0.2, 0.4], [True, False], [10, 30]),
            Marked([0.7, 0.1], [False, False], [50, 50]),
        ],
        0.5,
    )
    means = {name: one.mean for name, one in found.items()}
    assert means == pytest.approx(
        {
            "first": 0.5,
            "in_two": 1.0,
            "recall": 0.5,
            "precision": 0.25,
            "tokens_kept": (0.75 + 1.0 + 0.5) / 3,
            "empty": 1 / 3,
        }
    )
    assert (found["first"].n, found["precision"].n, found["empty"].n) == (2, 2, 3)
    assert as_json(found)["first"] == {"mean": 0.5, "low": 0.0, "high": 1.0, "n": 2}


def test_a_card_tells_the_best_sentence_alone_from_all_above_the_threshold():
    questions = [
        Marked([0.9, 0.8, 0.1], [True, True, False], [10, 30, 60]),
        Marked([0.7, 0.6, 0.2], [False, True, False], [20, 20, 10]),
        Marked([0.3, 0.4], [True, False], [10, 30]),
    ]
    means = {name: one.mean for name, one in card_measures(questions, 0.5).items()}
    assert means == pytest.approx(
        {
            "first": 1 / 3,
            "in_two": 1.0,
            "empty": 1 / 3,
            "recall_top_1": (0.5 + 0 + 0) / 3,
            "precision_top_1": (1 + 0) / 2,
            "tokens_kept_top_1": (0.1 + 0.4 + 1) / 3,
            "recall_above_threshold": (1 + 1 + 0) / 3,
            "precision_above_threshold": (1 + 0.5) / 2,
            "tokens_kept_above_threshold": (0.4 + 0.8 + 1) / 3,
        }
    )


def test_of_equal_sentences_the_first_is_the_best():
    tie = [Marked([0.9, 0.9], [True, False], [1, 1])]
    assert filter_measures(tie, 0.5, 1)["precision"].mean == 1.0
