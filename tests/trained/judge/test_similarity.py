"""Cosines, and what is usual among training rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.trained.judge_reading import SIMILARITIES, ReferenceMoments, Vectors, similarities


def unit(rows: int, seed: int, size: int = 8) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=(rows, size))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@given(*(st.integers(0, 4) for _ in range(3)), st.integers(1, 5), st.integers(0, 5))
def test_the_row_is_finite_whatever_there_is_none_of(sentences, first, every, questions, named):
    reference = ReferenceMoments.of(unit(questions, 1), unit(named, 2))
    one, two, three = unit(3, 3)
    vectors = Vectors(one, two, three, unit(sentences, 4), unit(first, 5), unit(every, 6))
    row = similarities(vectors, reference)
    assert len(row) == len(SIMILARITIES)
    assert np.isfinite(row).all()


def test_the_cosines_are_those_of_their_texts():
    question, draft, opened = unit(3, 0)
    told, near = unit(3, 1), unit(2, 2)
    row = dict(
        zip(
            SIMILARITIES,
            similarities(
                Vectors(question, draft, opened, told, near, np.vstack([near, question])),
                ReferenceMoments.of(unit(20, 3), unit(20, 4)),
            ),
            strict=True,
        )
    )
    assert row["question_draft"] == pytest.approx(question @ draft)
    assert row["question_first"] == pytest.approx(told[0] @ question)
    assert row["candidate_max"] == pytest.approx((near @ question).max())
    assert row["any_candidate_max"] == pytest.approx(1.0)
    cosines = [told[0] @ told[1], told[0] @ told[2], told[1] @ told[2]]
    assert row["coherence"] == pytest.approx(np.mean(cosines))


def test_the_reference_counts_deviations():
    questions, named = unit(500, 0), unit(500, 1)
    reference, asked = ReferenceMoments.of(questions, named), unit(1, 2)[0]
    cosines = named @ asked
    best = cosines.mean() + 2 * cosines.std()
    assert reference.candidate_z_score(asked, best) == pytest.approx(2.0)

    name = unit(1, 3)
    usual = questions @ name[0]
    wanted = (name[0] @ asked - usual.mean()) / usual.std()
    assert reference.specificity_z_score(name, asked) == pytest.approx(wanted)
