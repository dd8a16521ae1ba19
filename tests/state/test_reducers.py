"""Reducers: any order of arrival of parallel branches gives one result."""

from __future__ import annotations

import itertools
from functools import reduce
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state import (
    Candidate,
    Note,
    Usage,
    add_usage,
    merge_by_key,
    merge_candidates,
    merge_notes,
    no_usage,
    take_passages,
)

names = st.text(alphabet="abcd:", min_size=1, max_size=3)
counts = st.integers(min_value=0, max_value=10_000)
tokens = st.fixed_dictionaries({"calls": counts, "input_tokens": counts, "output_tokens": counts})
ledgers = st.fixed_dictionaries(
    {
        "calls": counts,
        "input_tokens": counts,
        "output_tokens": counts,
        "estimated": st.booleans(),
        "retrievals": counts,
        "by_role": st.dictionaries(names, tokens, max_size=3),
        "by_node": st.dictionaries(names, tokens, max_size=3),
    },
    optional={"saved_tokens": counts},
).map(lambda one: cast("Usage", one))


@st.composite
def candidate_branches(draw: st.DrawFn) -> list[dict[str, Candidate]]:
    keys = draw(st.lists(names, unique=True, max_size=6))
    return [
        {
            key: {
                "answer": draw(names),
                "reply": "",
                "pool": "p",
                "round": draw(st.integers(0, 1)),
                "rank": draw(st.integers(0, 2)),
                "sample": draw(st.integers(0, 2)),
                "passages": [],
            }
        }
        for key in keys
    ]


notes = st.builds(
    lambda step, node, event, detail: Note(step=step, node=node, event=event, detail=detail),
    st.integers(0, 3),
    names,
    names,
    st.dictionaries(names, st.integers() | st.lists(names, max_size=2), max_size=2),
)


@given(st.dictionaries(names, st.lists(names)), st.data())
def test_merge_by_key_takes_branches_in_any_order(
    whole: dict[str, Any], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(list(whole)))
    merged = reduce(merge_by_key, ({key: whole[key]} for key in order), cast("Any", None) or {})
    assert merged == whole
    assert list(merged) == sorted(whole)


def test_an_edit_replaces_its_key() -> None:
    assert merge_by_key({"a": 1, "b": 2}, {"a": 3}) == {"a": 3, "b": 2}
    assert merge_by_key(None, {"b": 1, "a": 2}) == {"a": 2, "b": 1}
    assert merge_by_key({"a": 1}, None) == {"a": 1}


@given(candidate_branches(), st.data())
def test_candidates_have_one_order(parts: list[dict[str, Candidate]], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(parts))
    nothing: dict[str, Candidate] = {}
    merged = reduce(lambda old, new: merge_candidates(old, new), shuffled, nothing)
    expected = reduce(lambda old, new: merge_candidates(old, new), parts, nothing)
    assert list(merged.items()) == list(expected.items())
    places = [(one["round"], one["rank"], one["sample"]) for one in merged.values()]
    assert places == sorted(places)


@given(candidate_branches(), candidate_branches())
def test_an_edited_candidate_takes_its_new_place(
    parts: list[dict[str, Candidate]], edits: list[dict[str, Candidate]]
) -> None:
    merged: dict[str, Candidate] = {}
    for one in [*parts, *edits]:
        merged = merge_candidates(merged, one)
    places = [(one["round"], one["rank"], one["sample"], key) for key, one in merged.items()]
    assert places == sorted(places)


@given(ledgers, ledgers)
def test_add_usage_commutes(one: Usage, other: Usage) -> None:
    assert add_usage(one, other) == add_usage(other, one)
    assert list(add_usage(one, other)) == list(add_usage(other, one))


@given(ledgers, ledgers, ledgers)
def test_add_usage_associates(a: Usage, b: Usage, c: Usage) -> None:
    assert add_usage(add_usage(a, b), c) == add_usage(a, add_usage(b, c))


@given(ledgers)
def test_nothing_is_neutral(one: Usage) -> None:
    assert add_usage(one, cast("Usage", no_usage())) == one
    assert add_usage(None, one) == one == add_usage(one, None)


@given(ledgers, ledgers)
def test_add_usage_leaves_its_inputs_alone(one: Usage, other: Usage) -> None:
    copies = repr(one), repr(other)
    add_usage(one, other)
    assert (repr(one), repr(other)) == copies


def test_add_usage_adds_tables_entry_by_entry() -> None:
    one = cast("Usage", {"calls": 1, "estimated": False, "by_node": {"a": {"calls": 1}}})
    two = cast("Usage", {"calls": 2, "estimated": True, "by_node": {"a": {"calls": 2}, "b": {}}})
    expected = {"calls": 3, "estimated": True, "by_node": {"a": {"calls": 3}, "b": {}}}
    assert add_usage(one, two) == expected


@given(st.lists(notes, max_size=4))
def test_notes_have_one_order(listed: list[Note]) -> None:
    nothing: list[Note] = []
    results = {
        repr(reduce(lambda old, new: merge_notes(old, [new]), order, nothing))
        for order in itertools.permutations(listed)
    }
    assert len(results) == 1


def test_notes_keep_repeats() -> None:
    one = Note(step=1, node="a", event="b", detail={})
    assert merge_notes([one], [one]) == [one, one]


@given(st.lists(st.text(max_size=20), max_size=5))
def test_taken_passages_are_ranked_and_marked_given(texts: list[str]) -> None:
    taken = take_passages([], texts)
    assert [doc.page_content for doc in taken] == texts
    assert [doc.metadata["rank"] for doc in taken] == list(range(len(texts)))
    assert all(doc.metadata["query"] == "given" and doc.id for doc in taken)


@given(st.lists(st.text(max_size=20), max_size=5))
def test_taking_taken_passages_changes_nothing(texts: list[str]) -> None:
    taken = take_passages([], texts)
    assert take_passages(["stale"], taken) == taken


def test_passages_come_as_documents_json_or_text() -> None:
    doc = Document(page_content="Mars", metadata={"title": "T"}, id="m")
    shapes = [doc, doc.model_dump(), doc.to_json(), "Mars"]
    taken = take_passages(None, shapes)
    assert [one.page_content for one in taken] == ["Mars"] * 4
    assert [one.id for one in taken[:3]] == ["m"] * 3
    assert taken[2].metadata["title"] == "T"


def test_given_documents_are_not_changed() -> None:
    doc = Document(page_content="Mars", metadata={"title": "T"})
    take_passages(None, [doc])
    assert doc.id is None
    assert doc.metadata == {"title": "T"}


def test_none_takes_no_passages() -> None:
    assert take_passages([Document(page_content="old")], None) == []


@pytest.mark.parametrize("bad", ["one text", {"page_content": "x"}, [{"title": "x"}], [5], [None]])
def test_what_is_no_list_of_passages_is_a_usage_error(bad: Any) -> None:
    with pytest.raises(UsageError, match="passage"):
        take_passages(None, bad)
