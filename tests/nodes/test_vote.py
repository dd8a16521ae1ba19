"""The majority vote."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.nodes.retrieve import arranged
from ragweave.nodes.vote import majority_vote, pool_of
from ragweave.state import Candidate
from ragweave.tools.text.normalize import normalize_answer
from ragweave.tools.text.unknown import UNKNOWN


def candidate(
    answer: str, rank: int = 0, sample: int = 0, pool: str = "p", passage: str | None = None
) -> Candidate:
    return {
        "answer": answer,
        "reply": answer,
        "pool": pool,
        "round": 0,
        "rank": rank,
        "sample": sample,
        "passages": [] if passage is None else [passage],
    }


answers = st.sampled_from(["Paris", "paris.", "The Paris", "Rome", "the", "?!", UNKNOWN])
pools = st.lists(st.builds(candidate, answers, st.integers(0, 4), st.integers(0, 2)), max_size=9)


@given(pools, st.data())
def test_the_order_of_arrival_does_not_matter(pool: list[Candidate], data: st.DataObject) -> None:
    assert majority_vote(data.draw(st.permutations(pool))) == majority_vote(pool)


@given(pools)
def test_the_winner_has_the_most_votes(pool: list[Candidate]) -> None:
    votes = Counter(
        normalize_answer(one["answer"]) or one["answer"] for one in pool if one["answer"] != UNKNOWN
    )
    winner = majority_vote(pool)
    if not votes:
        assert winner == UNKNOWN
    else:
        assert votes[normalize_answer(winner) or winner] == max(votes.values())
        assert winner in [one["answer"] for one in pool]


@given(pools, st.integers(0, 30))
def test_unknown_never_wins_while_an_answer_stands(pool: list[Candidate], more: int) -> None:
    assert majority_vote([*pool, *[candidate(UNKNOWN)] * more]) == majority_vote(pool)


@pytest.mark.parametrize("order", ["retrieved", "reversed"])
def test_a_tie_of_one_rank_goes_to_the_passage_that_was_merged_first(order: str) -> None:
    merged = arranged([Document(name, id=name) for name in ("question", "claim")], order)
    pool = [candidate("Apple", passage="claim"), candidate("Zebra", passage="question")]
    for one in (pool, pool[::-1]):
        assert majority_vote(one, merged) == "Zebra"
    assert majority_vote([*pool, candidate("Apple", 1)], merged) == "Apple"
    better = [candidate("Apple", passage="claim"), candidate("Zebra", 1, passage="question")]
    assert majority_vote(better, merged) == "Apple"


def test_a_tie_goes_to_the_better_rank_then_the_earlier_sample() -> None:
    assert majority_vote([candidate("Rome", 1), candidate("Paris", 0)]) == "Paris"
    assert majority_vote([candidate("Rome", 0, 1), candidate("Paris", 0, 0)]) == "Paris"
    assert (
        majority_vote([candidate("Rome", 0), candidate("Paris", 2), candidate("Paris", 1)])
        == "Paris"
    )


def test_the_winner_shows_the_words_of_its_best_ranked_candidate() -> None:
    pool = [candidate("paris", 2), candidate("the Paris", 1), candidate("PARIS.", 3)]
    assert majority_vote(pool) == "the Paris"


def test_no_candidates_are_unknown() -> None:
    assert majority_vote([]) == UNKNOWN


def test_a_pool_is_the_candidates_of_one_node() -> None:
    state = {"candidates": {"a": candidate("A", pool="x"), "b": candidate("B", pool="y")}}
    assert [one["answer"] for one in pool_of(state, "y")] == ["B"]
