"""Sentence splitting: exact offsets in any language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.text.sentences import split_sentences


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "en",
            "Dr. Smith lives in the U.S. He wrote two books. Were they good?",
            ["Dr. Smith lives in the U.S.", "He wrote two books.", "Were they good?"],
        ),
        (
            "en",
            "It cost 3.5 million. J. R. R. Tolkien paid.",
            ["It cost 3.5 million.", "J. R. R. Tolkien paid."],
        ),
        (
            "de",
            "Er kam z. B. am 3. Mai an. Dann ging er.",
            ["Er kam z. B. am 3. Mai an.", "Dann ging er."],
        ),
        ("ja", "東京は首都です。人口は多い。", ["東京は首都です。", "人口は多い。"]),
        ("hi", "यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("en", " \n ", []),
        ("en", "", []),
    ],
)
def test_sentences(language: str, text: str, expected: list[str]) -> None:
    assert [one.text for one in split_sentences(text, language)] == expected


pieces = st.sampled_from(
    ["Dr. ", "He ran. ", "\n\n", "U.S. ", "Why?! ", "…", "“No.” ", "(a. b.) ", "  ", "é"]
)


@given(st.lists(pieces, max_size=15).map("".join) | st.text(max_size=80))
def test_offsets_are_exact_and_nothing_is_lost(text: str) -> None:
    sentences = split_sentences(text)
    end = 0
    for one in sentences:
        assert text[one.start : one.end] == one.text == one.text.strip() != ""
        assert one.start >= end
        assert not text[end : one.start].strip()
        end = one.end
    assert not text[end:].strip()


def test_an_unknown_language_falls_back() -> None:
    assert [one.text for one in split_sentences("One. Two.", "xx")] == ["One.", "Two."]
