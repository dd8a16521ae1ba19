"""Sentence splitting: exact offsets in any language."""

from __future__ import annotations

import sys

import pytest
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.text.words import split_sentences

BLANKS = [sign for sign in map(chr, range(sys.maxunicode + 1)) if sign.isspace() and not sign.isascii()]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        (
            "en",
            "Dr. Smith lives in the U.S. He wrote two books. Were they good?",
            ["Dr. Smith lives in the U.S.", "He wrote two books.", "Were they good?"],
        ),
        ("en", "It cost 3.5 million. J. R. R. Tolkien paid.", ["It cost 3.5 million.", "J. R. R. Tolkien paid."]),
        ("de", "Er kam z. B. am 3. Mai an. Dann ging er.", ["Er kam z. B. am 3. Mai an.", "Dann ging er."]),
        ("ja", "東京は首都です。人口は多い。", ["東京は首都です。", "人口は多い。"]),
        ("hi", "यह एक है। यह दो है।", ["यह एक है।", "यह दो है।"]),
        ("en", "Depth (in m) Width (in cm) Height.", ["Depth (in m) Width (in cm) Height."]),
        ("en", "See (a) and (b. c.). Go.", ["See (a) and (b. c.).", "Go."]),
        ("en", "Am 17. Februar 2025. Dann nicht.", ["Am 17. Februar 2025.", "Dann nicht."]),
        (
            "en",
            "The table.\n| A | B |\n|---|---|\n| 1 | 2 |\nIt ends.",
            ["The table.", "| A | B |", "|---|---|", "| 1 | 2 |", "It ends."],
        ),
        (
            "en",
            "It rose.\nSite Depth (in m)\nAlden 3 4\nNorhaven 5 6",
            ["It rose.", "Site Depth (in m)", "Alden 3 4", "Norhaven 5 6"],
        ),
        (
            "en",
            "Entry form\nName: Ada Lund\nBorn: 1932. In Alden.",
            ["Entry form", "Name: Ada Lund", "Born: 1932.", "In Alden."],
        ),
        ("en", "item: Kettle\nprice: 19.50", ["item: Kettle\nprice: 19.50"]),
        ("en", "It was opened in\nMay: a month of\nrain.", ["It was opened in\nMay: a month of\nrain."]),
        ("en", " \n ", []),
        ("en", "", []),
    ],
)
def test_sentences(language: str, text: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in split_sentences(text, language)] == expected


pieces = st.sampled_from(["Dr. ", "He ran. ", "\n\n", "U.S. ", "Why?! ", "…", "“No.” ", "(a. b.) ", "  ", "é"])


blanks = st.sampled_from(BLANKS)
near_capitals = st.lists(st.sampled_from("AZÉb.!? \n") | blanks, max_size=12).map("".join)


@given(st.lists(pieces, max_size=15).map("".join) | st.text(max_size=80) | near_capitals)
def test_offsets_are_exact_and_nothing_is_lost(text: str) -> None:
    sentences = split_sentences(text)
    end = 0
    for sentence in sentences:
        assert text[sentence.start : sentence.end] == sentence.text == sentence.text.strip() != ""
        assert sentence.start >= end
        assert not text[end : sentence.start].strip()
        end = sentence.end
    assert not text[end:].strip()


@pytest.mark.parametrize("sentence", ["The bridge was painted grey. ", "Is it old?\n", "橋は灰色です。"])
def test_sentences_of_a_long_text_without_blank_lines_are_whole(sentence: str) -> None:
    assert {part.text for part in split_sentences(sentence * 3000)} == {sentence.strip()}


def test_words_of_a_long_text_without_sentences_are_whole() -> None:
    assert {word for sentence in split_sentences("basalt " * 3000) for word in sentence.text.split()} == {"basalt"}


def test_an_unknown_language_falls_back() -> None:
    assert [sentence.text for sentence in split_sentences("One. Two.", "xx")] == ["One.", "Two."]


@pytest.mark.parametrize("blank", BLANKS, ids=ascii)
def test_a_capital_between_blanks_that_are_not_ascii(blank: str) -> None:
    text = f"Take vitamin{blank}C{blank}. It helps."
    assert [sentence.text for sentence in split_sentences(text)] == [text[:16], "It helps."]


class PanicException(BaseException):
    """What a panic of a Rust extension raises, by its name."""


def test_where_the_splitter_panics_the_text_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def segment(_language: str, _text: str) -> list[str]:
        raise error

    monkeypatch.setattr(sentencex, "get_sentence_boundaries", segment)
    error: BaseException = PanicException("byte index 1 is out of bounds")
    assert [sentence.text for sentence in split_sentences(" One. Two. ")] == ["One. Two."]
    error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        split_sentences("One. Two.")
