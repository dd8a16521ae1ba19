"""Passages: ids by content, ranks, and merging of ranked lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.errors import UsageError
from ragweave.state import as_document, content_id, interleave, ranked, unique, with_id
from ragweave.state.passages import GIVEN, INPUT, as_input, told_apart, with_merged_rank

docs = st.builds(
    lambda text, name: Document(page_content=text, id=name),
    st.text(alphabet="ab C", min_size=1, max_size=4),
    st.none() | st.sampled_from(["x", "y", "z"]),
)


def test_content_id_depends_on_title_and_text() -> None:
    assert content_id("text", "title") == content_id("text", "title")
    assert len({content_id("a"), content_id("b"), content_id("a", "t"), content_id("t\na")}) == 4


def test_with_id_keeps_an_id() -> None:
    assert with_id(Document(page_content="a", id="mine")).id == "mine"
    named = with_id(Document(page_content="a", metadata={"title": "T"}))
    assert named.id == content_id("a", "T")


@given(st.lists(docs, max_size=6))
def test_ranked_counts_from_zero_and_copies(listed: list[Document]) -> None:
    result = ranked(listed, "q")
    assert [doc.metadata["rank"] for doc in result] == list(range(len(listed)))
    assert all(doc.metadata["query"] == "q" and doc.id for doc in result)
    assert all(doc.metadata == {} for doc in listed)
    moved = with_merged_rank(result)
    assert [doc.metadata["merged_rank"] for doc in moved] == list(range(len(listed)))
    assert as_input(moved) == result


@given(st.lists(docs, max_size=8))
def test_unique_is_idempotent_and_has_no_repeats(listed: list[Document]) -> None:
    kept = unique(listed)
    assert unique(kept) == kept
    assert len({doc.id for doc in kept}) == len(kept)
    folded = [" ".join(doc.page_content.casefold().split()) for doc in kept]
    assert len(set(folded)) == len(folded)


@given(st.lists(st.lists(docs, max_size=4), max_size=4))
def test_interleave_has_no_repeats_and_first_ranks_first(lists: list[list[Document]]) -> None:
    merged = interleave(lists)
    assert unique(merged) == merged
    everything = [with_id(doc) for one in lists for doc in one]
    assert {doc.page_content for doc in merged} <= {doc.page_content for doc in everything}
    assert {str(doc.id).partition("~")[0] for doc in merged} <= {doc.id for doc in everything}
    assert unique(merged + everything) == merged
    if lists and lists[0]:
        assert merged[0] == with_id(lists[0][0])


@given(st.dictionaries(st.sampled_from(["round_2", "round_10", "question"]), st.lists(docs)))
def test_passages_of_one_id_are_told_apart_by_their_text(sets: dict[str, list[Document]]) -> None:
    apart = told_apart(sets)
    assert told_apart(apart) == apart
    assert {key: [doc.page_content for doc in one] for key, one in apart.items()} == {
        key: [doc.page_content for doc in one] for key, one in sets.items()
    }
    first: dict[str, str] = {}
    for key in ("question", "round_2", "round_10"):
        for doc in apart.get(key, []):
            text = " ".join(doc.page_content.casefold().split())
            assert text in first.setdefault(str(doc.id), text)
    earlier = {key: one for key, one in sets.items() if key != "round_10"}
    assert told_apart(earlier) == {key: apart[key] for key in earlier}


def test_each_passage_of_a_page_is_read_and_one_without_a_rival_keeps_its_id() -> None:
    texts = ("The first half.", "The second half.", "the  FIRST half.", "first")
    page = [Document(page_content=text, id="w1") for text in texts]
    other = Document(page_content="Another page.", id="w2")
    for kept in (unique([*page, other]), unique(ranked([*page, other], "q"))):
        assert [doc.page_content for doc in kept] == [*texts[:2], "Another page."]
        assert [kept[0].id, kept[2].id] == ["w1", "w2"]
        assert str(kept[1].id).startswith("w1~")
    reversed_ids = {doc.page_content: doc.id for doc in unique(page[1::-1])}
    assert reversed_ids[texts[1]] == "w1"
    assert str(reversed_ids[texts[0]]).startswith("w1~")


def test_interleave_order() -> None:
    lists = [[Document(page_content=text) for text in texts] for texts in ("ace", "bd", "")]
    assert [doc.page_content for doc in interleave(lists)] == list("abcde")


def test_as_input_retires_only_the_given_mark() -> None:
    marked = [
        *ranked([Document(page_content="a")], GIVEN),
        *ranked([Document(page_content="b")], "q"),
    ]
    assert [doc.metadata["query"] for doc in as_input(marked)] == [INPUT, "q"]


def test_lone_surrogates_are_replaced_and_what_is_whole_stays_itself() -> None:
    sound = Document(page_content="a \U0001f600", metadata={"title": "T"})
    assert as_document(sound) is sound
    broken = Document(id="i\ud800", page_content="a\udfff", metadata={"t\ud800": ["\ud801", 3]})
    for form in (broken, broken.model_dump(), {"kwargs": broken.model_dump()}):
        assert as_document(form) == Document(id="i?", page_content="a?", metadata={"t?": ["?", 3]})
    assert as_document("\ud800").page_content == "?"
    assert content_id("a\udfff", "\ud800") == content_id("a?", "?")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"page_content": 5}, "page_content of a passage must be a string, not int"),
        ({"page_content": None, "metadata": 3}, "page_content of a passage must be a string, not "),
        ({"page_content": "a", "metadata": 3}, "metadata of a passage must be a mapping, not int"),
        ({"page_content": "a", "metadata": ["x"]}, "must be a mapping, not list"),
        ({"page_content": "a", "id": [1]}, "id of a passage must be a string, not list"),
        ({"txt": "a"}, "not dict with txt"),
        (7, "not int"),
    ],
)
def test_what_is_no_passage_is_one_clear_line(value: object, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        as_document(value)
    assert "\n" not in str(caught.value)


def test_a_passage_as_json_output_prints_it() -> None:
    printed = {"id": "a", "text": "It rains.", "metadata": {"title": "T"}}
    assert as_document(printed) == Document("It rains.", id="a", metadata={"title": "T"})
    both = as_document({"page_content": "kept", "text": "passed over"})
    assert both.page_content == "kept"
