"""Reciprocal rank fusion by its properties."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.retrieval import reciprocal_rank_fusion

ranking = st.lists(st.integers(0, 20), unique=True, max_size=12)
rankings = st.lists(ranking, max_size=5)


@given(rankings, st.integers(0, 100))
def test_scores_are_the_sums_and_fall(lists: list[list[int]], k: int) -> None:
    fused = reciprocal_rank_fusion(lists, k=k)
    assert {item for item, _ in fused} == {item for one in lists for item in one}
    for item, score in fused:
        wanted = sum(1 / (k + one.index(item) + 1) for one in lists if item in one)
        assert score == pytest.approx(wanted)
    scores = [score for _, score in fused]
    assert scores == sorted(scores, reverse=True)


@given(rankings, st.randoms())
def test_scores_do_not_depend_on_the_order_of_rankings(
    lists: list[list[int]], random: object
) -> None:
    shuffled = sorted(lists, key=lambda _one: random.random())  # type: ignore[attr-defined]
    assert dict(reciprocal_rank_fusion(lists)) == dict(reciprocal_rank_fusion(shuffled))


@given(ranking, st.integers(1, 4))
def test_agreement_keeps_the_order(one: list[int], times: int) -> None:
    assert [item for item, _ in reciprocal_rank_fusion([one] * times)] == one


@given(rankings, ranking)
def test_a_vote_more_never_lowers_a_score(lists: list[list[int]], more: list[int]) -> None:
    before, after = (
        dict(reciprocal_rank_fusion(lists)),
        dict(reciprocal_rank_fusion([*lists, more])),
    )
    for item, score in before.items():
        assert after[item] >= score - 1e-12


def test_a_repeat_in_one_list_counts_once() -> None:
    assert reciprocal_rank_fusion([["a", "a", "b"]]) == [("a", 1 / 61), ("b", 1 / 62)]


def test_the_papers_constant_and_ties() -> None:
    assert reciprocal_rank_fusion([["a", "b"], ["b", "a"]]) == [
        ("a", 1 / 61 + 1 / 62),
        ("b", 1 / 61 + 1 / 62),
    ]
    with pytest.raises(UsageError, match="-1"):
        reciprocal_rank_fusion([], k=-1)
