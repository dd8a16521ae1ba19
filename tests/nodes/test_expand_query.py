"""Queries expanded by generated text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.expand_query import LONGEST, cut, expand_query


def test_the_text_comes_first() -> None:
    assert expand_query("Who?", " Ada\nMoreno. ") == ("Ada Moreno. Who?", 11)


REFUSALS = [
    "I'm sorry, but I cannot answer this question. Please provide more context.",
    "I don't know. Could you please provide more details?",
    "I don't know the answer. Let me know if you have other questions!",
]


@pytest.mark.parametrize(
    "text", ["", " \n", "Unknown", "I don't know.", "<think>Ada</think>", *REFUSALS]
)
def test_a_text_that_says_nothing_leaves_the_question(text: str) -> None:
    assert expand_query("Who?", text) == ("Who?", 0)


def test_what_a_text_found_out_is_searched_for_though_it_does_not_know_the_answer() -> None:
    found = "Low Water was directed by Ann Lee."
    query, length = expand_query("Where was she born?", f"{found} So the answer is Unknown.")
    assert (query, length) == (f"{found} Where was she born?", len(found))
    whole = "It was found adrift. Whether the crew lived is unknown. So the answer is 1872."
    assert expand_query("When?", whole)[0] == f"{whole} When?"


@given(st.text(max_size=200), st.integers(1, 50))
def test_cut_is_a_prefix_within_the_limit(text: str, longest: int) -> None:
    short = cut(text, longest)
    assert len(short) <= longest
    assert text.startswith(short)
    assert short or not text or text[0] == " "


def test_the_question_is_never_cut() -> None:
    query, length = expand_query("Who was it?", "word " * 2000)
    assert query.endswith(" Who was it?")
    assert len(query) <= LONGEST + len(" Who was it?")
    assert length > LONGEST
