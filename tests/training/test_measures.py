"""Thresholds and measures."""

from __future__ import annotations

import numpy as np
import pytest

from ragweave.training.job import Scored, auc, best_balanced, filtered, judged, recall_threshold
from ragweave.training.linear import best_threshold, routes_of


def test_auc_counts_pairs_in_the_right_order_and_ties_by_half() -> None:
    scores = np.array([0.1, 0.4, 0.4, 0.9])
    assert auc(scores, np.array([False, False, True, True])) == pytest.approx(3.5 / 4)
    assert auc(scores, np.array([True, True, True, True])) == 0.5


def test_a_judges_threshold_parts_the_classes() -> None:
    chances, labels = np.array([0.2, 0.3, 0.35, 0.6]), np.array([False, False, True, True])
    threshold = best_balanced(chances, labels)
    assert 0.3 < threshold < 0.35
    assert judged(chances, labels, threshold) == {"accuracy": 1.0, "larger_class": 0.5, "auc": 1.0}


def test_a_filters_threshold_reaches_the_recall() -> None:
    rows = [
        Scored([1.0, 0.6, 0.1], [True, True, False], [2, 2, 4]),
        Scored([0.2, 1.0, 0.3], [True, False, False], [4, 2, 2]),
    ]
    assert recall_threshold(rows, 0.75) == pytest.approx(0.2, rel=1e-3)
    assert recall_threshold(rows, 0.5) == pytest.approx(0.6, rel=1e-3)
    assert recall_threshold([], 0.9) == 0.5
    measures = filtered(rows, 0.5)
    assert measures == {"first": 0.5, "in_two": 0.5, "recall": 0.5, "precision": 0.5, "words_kept": 0.375}


def test_a_router_retrieves_no_more_than_it_may() -> None:
    chances = np.array([[0.9, 0.9, 0.9], [0.5, 0.8, 0.8], [0.1, 0.9, 0.9], [0.2, 0.3, 0.9]])
    labels = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)
    shares = [
        float((routes_of(chances, best_threshold(chances, labels, most)) > 0).mean()) for most in (0.75, 0.5, 0.1)
    ]
    assert shares == [0.75, 0.5, 0.0]
