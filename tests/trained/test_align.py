"""From what a filter wrote to the passages' own sentences."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document

from ragweave.tools.filters import spans_of
from ragweave.trained.filter import aligned

BRIDGE = "Cedar Bridge opened in 1934.\n  The Cedar Bridge was designed by Ada Moreno. It is long."
RIVER = "The river Osk is wide. Salmon live in it."
PASSAGES = [Document(page_content=BRIDGE, id="b"), Document(page_content=RIVER, id="r")]


def kept(written: str) -> list[str]:
    return [span["text"] for span in aligned(written, PASSAGES)]


def test_what_is_copied_is_found_where_it_stands() -> None:
    spans = aligned("The river Osk is wide. Cedar Bridge opened in 1934.", PASSAGES)
    assert [(one["passage_id"], one["start"], one["end"]) for one in spans] == [
        ("r", 0, 22),
        ("b", 0, 28),
    ]
    assert [one["score"] for one in spans] == [1.0, 1.0]


def test_white_space_and_case_do_not_matter() -> None:
    assert kept("the cedar   bridge WAS designed by\nAda Moreno.") == [
        "The Cedar Bridge was designed by Ada Moreno."
    ]


def test_a_piece_of_a_sentence_is_enough() -> None:
    assert kept("designed by Ada Moreno") == ["designed by Ada Moreno"]


def test_no_piece_begins_or_ends_within_a_word() -> None:
    """`edar Bridge` is no piece of it, so the likest sentence is taken, if it is like enough."""
    assert kept("edar Bridge opened in 1934.") == ["Cedar Bridge opened in 1934."]
    assert kept("live in i") == ["Salmon live in it."]


def test_a_changed_word_gives_the_passages_own_sentence() -> None:
    spans = aligned("The Cedar Bridge was designed by Ana Moreno.", PASSAGES)
    assert [one["text"] for one in spans] == ["The Cedar Bridge was designed by Ada Moreno."]
    assert 0.5 <= spans[0]["score"] < 1.0


def test_what_no_passage_says_is_dropped() -> None:
    assert kept("Mars has two moons, Phobos and Deimos.") == []
    assert kept("") == kept("  \n") == kept("?!") == []


def test_a_span_comes_once() -> None:
    assert kept("It is long. It is long. it is long.") == ["It is long."]


@given(st.lists(st.integers(min_value=0, max_value=4), max_size=6))
def test_any_choice_of_sentences_comes_back(chosen: list[int]) -> None:
    spans = spans_of(PASSAGES)
    written = " ".join(" ".join(spans[at]["text"].split()) for at in chosen)
    wanted = list(dict.fromkeys(spans[at]["text"] for at in chosen))
    assert kept(written) == wanted


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60))
def test_every_span_is_a_piece_of_its_passage(written: str, first: str, second: str) -> None:
    passages = [Document(page_content=first, id="0"), Document(page_content=second, id="1")]
    for text in (written, first, f"{second} {first}"):
        for span in aligned(text, passages):
            source = passages[int(span["passage_id"])].page_content
            assert source[span["start"] : span["end"]] == span["text"] != ""
