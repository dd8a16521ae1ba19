"""Passages and records: ids, ranks, merges, and sums that no order of branches changes."""

from __future__ import annotations

import itertools

import pytest
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state import Candidate, add_usage, merge, merge_candidates, merge_notes, no_usage
from ragweave.state.passages import as_document, by_query, heading_of, interleave, ranked, unique, with_id


def texts(documents: list[Document]) -> list[str]:
    return [document.page_content for document in documents]


def test_a_passage_may_be_a_document_its_json_form_or_a_text() -> None:
    document = Document("Ada", id="a", metadata={"title": "T"})
    assert as_document(document) is document
    assert as_document({"page_content": "Ada", "metadata": {"title": "T"}, "id": "a"}) == document
    assert as_document({"text": "Ada"}).page_content == as_document("Ada").page_content == "Ada"
    with pytest.raises(UsageError, match="not int"):
        as_document(3)


def test_passages_get_an_id_a_rank_and_the_name_of_their_query() -> None:
    passages = ranked([Document("a"), Document("b", id="x"), Document("c", id="x")], "question")
    assert [passage.metadata["rank"] for passage in passages] == [0, 1, 2]
    assert {passage.metadata["query"] for passage in passages} == {"question"}
    assert len({passage.id for passage in passages}) == 3, "chunks of one page have ids of their own"
    assert passages[0].id == with_id(Document("a")).id


def test_lists_are_merged_rank_by_rank_or_one_after_the_other() -> None:
    first, second = [Document("a"), Document("b")], [Document("c"), Document(" A ")]
    assert texts(interleave([first, second])) == ["a", "c", "b"]
    assert texts(by_query([first, second])) == ["a", "b", "c"]
    assert texts(unique([*second, *first])) == ["c", " A ", "b"]


def test_a_heading_has_title_and_path() -> None:
    assert (
        heading_of({"title": "Handbook", "heading_path": ["Refunds", "Deadlines"]}) == "Handbook › Refunds › Deadlines"
    )


def candidate(round_: int, rank: int, sample: int) -> Candidate:
    return {"answer": "", "reply": "", "pool": "", "round": round_, "rank": rank, "sample": sample, "passages": []}


def test_no_order_of_branches_changes_a_merge() -> None:
    branches = [{"b": candidate(0, 1, 0)}, {"a": candidate(1, 0, 0)}, {"c": candidate(0, 0, 1)}]
    for order in itertools.permutations(branches):
        joined: dict[str, Candidate] = {}
        for candidates in order:
            joined = merge_candidates(joined, candidates)
        assert list(joined) == ["c", "b", "a"]
    assert list(merge({"b": 1}, {"a": 2})) == ["a", "b"]
    notes = [{"step": 2, "node": "b", "event": "x", "detail": {}}, {"step": 1, "node": "a", "event": "y", "detail": {}}]
    assert merge_notes(notes[:1], notes[1:]) == merge_notes(notes[1:], notes[:1])  # type: ignore[arg-type]


def test_usage_adds_up_and_none_starts_over() -> None:
    usage = {**no_usage(), "calls": 1, "input_tokens": 3, "by_role": {"answer": {"calls": 1}}, "usd": 0.5}
    two = {**no_usage(), "calls": 2, "estimated": True, "by_role": {"answer": {"calls": 1}, "judge": {"calls": 1}}}
    total = add_usage(usage, two)  # type: ignore[arg-type]
    assert (total["calls"], total["estimated"], total["usd"]) == (3, True, 0.5)
    assert total["by_role"] == {"answer": {"calls": 2}, "judge": {"calls": 1}}
    assert add_usage(total, None) == no_usage()
    assert merge({"a": 1}, None) == {}
