"""Normalisation by the SQuAD rule, words, and estimated token counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, SystemMessage

from ragweave.tools.text.words import estimate_message_tokens, estimate_tokens, normalize_answer, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Eiffel Tower.", "eiffel tower"),
        ("  an   Apple\t", "apple"),
        ("“Hey Jude”", "hey jude"),
        ("1914–1918", "19141918"),
        ("J. R. R. Tolkien", "j r r tolkien"),
        ("U.S.", "us"),
        ("theatre", "theatre"),
        ("Émile", "émile"),
        ("the", ""),
        ("", ""),
    ],
)
def test_normalize_answer(text: str, expected: str) -> None:
    assert normalize_answer(text) == expected


@given(st.text(max_size=60))
def test_the_result_is_lower_case_and_folded(text: str) -> None:
    result = normalize_answer(text)
    assert result == " ".join(result.split())
    assert not {"a", "an", "the"} & set(result.split())
    assert result == result.lower()


@given(st.text(alphabet="abThe .,!“ -", max_size=30))
def test_case_punctuation_and_space_do_not_matter(text: str) -> None:
    assert normalize_answer(f"  {text.upper()}!?  ") == normalize_answer(text)


def test_words() -> None:
    assert words("Don't stop, Łódź 1984! snake_case") == ["don't", "stop", "łódź", "1984", "snake", "case"]


def test_estimates() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1
    assert estimate_tokens("abcd" * 10) == 10
    assert estimate_tokens("日本語の") == 2


def test_every_message_costs_something() -> None:
    messages = [HumanMessage("abcd")]
    two = [SystemMessage(""), HumanMessage("abcd")]
    assert estimate_tokens("abcd") < estimate_message_tokens(messages) < estimate_message_tokens(two)
