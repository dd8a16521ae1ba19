"""The reference budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.nodes.retrieve import arranged, trimmed
from ragweave.state import interleave, ranked
from ragweave.tools.text.normalize import estimate_tokens


def passages(*ranks: int, size: int = 40) -> list[Document]:
    return [
        Document(page_content="x" * size, metadata={"rank": rank}, id=f"p{index}")
        for index, rank in enumerate(ranks)
    ]


@pytest.mark.parametrize(
    ("tokens", "kept"),
    [
        (60, ["p0", "p1", "p2", "p3", "p4", "p5"]),
        (59, ["p0", "p1", "p2", "p3"]),
        (20, ["p0", "p1"]),
        (1, ["p0"]),
        (None, ["p0", "p1", "p2", "p3", "p4", "p5"]),
    ],
)
def test_two_at_a_time_from_the_end(tokens: int | None, kept: list[str]) -> None:
    assert [doc.id for doc in trimmed(passages(0, 0, 0, 1, 1, 1), 20, tokens)] == kept


def test_the_lowest_ranks_go_wherever_they_stand() -> None:
    assert [doc.id for doc in trimmed(passages(2, 1, 0), 2, None)] == ["p1", "p2"]


ORDERS = ["retrieved", "reversed", "gold_first", "gold_last"]


def two_queries() -> list[Document]:
    question = [Document("q0", metadata={"gold": True}), Document("q1")]
    claim = [Document("c0"), Document("c1", metadata={"gold": True})]
    return interleave([ranked(question, "question"), ranked(claim, "claim_1")])


@pytest.mark.parametrize("order", ORDERS)
def test_of_one_rank_the_first_querys_stays_in_every_order(order: str) -> None:
    asked = arranged(two_queries(), order)
    for most, kept in enumerate([{"q0"}, {"q0", "c0"}, {"q0", "c0", "q1"}], start=1):
        assert {doc.page_content for doc in trimmed(asked, most, None)} == kept


@pytest.mark.parametrize("order", ORDERS)
def test_of_passages_without_a_rank_the_first_stay_in_every_order(order: str) -> None:
    given_passages = [Document(text, metadata={"gold": text == "c"}) for text in "abcd"]
    kept = trimmed(arranged(given_passages, order), 2, None)
    assert {doc.page_content for doc in kept} == {"a", "b"}


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(1, 400)), max_size=15),
    st.integers(1, 20),
    st.integers(1, 500),
)
def test_within_the_budget_in_order(sizes: list[tuple[int, int]], most: int, tokens: int) -> None:
    given_passages = [
        Document(page_content="x" * size, metadata={"rank": rank}, id=str(index))
        for index, (rank, size) in enumerate(sizes)
    ]
    kept = trimmed(given_passages, most, tokens)
    assert [doc for doc in given_passages if doc in kept] == kept
    assert len(kept) <= most
    assert bool(kept) == bool(given_passages)
    spent = sum(estimate_tokens(doc.page_content) for doc in kept)
    assert spent <= tokens or len(kept) == 1
