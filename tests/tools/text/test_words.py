"""Words of any script, and one form of each."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.text.words import LETTERS, UNSPACED_LETTER, WORD, folded, word_spans

MARKS = "\u0301\u093f\u093e\u094d\u064e\u0bc1\u3099\U00011081"


@pytest.mark.parametrize(
    "word", ["किताब", "पुस्तक", "புத்தகம்", "كِتَاب", "הַתּוֹרָה", "മലയാളം", "cafe\u0301", "i\u0307stanbul", "か\u3099"]
)
def test_a_word_keeps_its_marks(word: str) -> None:
    for pattern in (WORD, LETTERS):
        assert re.findall(pattern, f" {word}, {word}। ") == [word, word]


def test_scripts_without_spaces_go_on_to_be_parted_at_their_marks() -> None:
    assert "ประเทศ" not in re.findall(WORD, "นี่คือประเทศไทย")
    for text in ("เมืองหลวงของไทย", "ភ្នំពេញ", "ရန်ကုန်မြို့", "ວຽງຈັນ"):
        assert re.findall(WORD, text) == re.findall(r"\w+", text)


def test_a_variation_selector_belongs_to_no_word() -> None:
    assert re.findall(WORD, "1\ufe0f\u20e3") == ["1"]


def test_no_mark_stands_behind_those_that_are_known() -> None:
    missed = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in ("Mn", "Mc") and not 0x300 <= code < 0x1F000
    ]
    assert all(0xE0100 <= int(code, 16) <= 0xE01EF for code in missed)  # variation selectors


@given(st.text(st.sampled_from(f"ab_1é-' \n{MARKS}"), max_size=30) | st.text(max_size=40))
def test_words_hold_what_python_finds_and_only_marks_beside(text: str) -> None:
    matches = re.findall(WORD, text)
    assert re.findall(r"\w", "".join(matches)) == re.findall(r"\w", text)
    assert all(re.match(r"\w", word) for word in matches)
    rest = re.sub(r"\w", "", "".join(matches))
    assert all(unicodedata.category(sign) in ("Mn", "Mc") for sign in rest)


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("Office", "office"),
        ("oﬃce", "office"),
        ("l’Oﬃce", "l’office"),
        ("Cafe\u0301", "café"),
        ("İstanbul", "istanbul"),
        ("ＡＢＣ", "abc"),
        ("ｶﾞ", "ガ"),
        ("m²", "m2"),
    ],
)
def test_one_form_of_each_word(word: str, form: str) -> None:
    assert folded(word) == form


@given(st.text(max_size=12))
def test_a_word_has_one_form_however_its_accents_are_written(text: str) -> None:
    for word in re.findall(WORD, text):
        assert folded(unicodedata.normalize("NFD", word)) == folded(unicodedata.normalize("NFC", word))


UNSPACED = (
    *("THAI ", "LAO ", "TIBETAN ", "MYANMAR ", "KHMER ", "TAI ", "NEW TAI ", "BALINESE ", "AHOM "),
    *("JAVANESE ", "CJK ", "HIRAGANA ", "KATAKANA", "HALFWIDTH KATAKANA ", "BOPOMOFO ", "YI "),
)


def test_letters_of_scripts_without_spaces_are_known() -> None:
    pattern = re.compile(UNSPACED_LETTER)
    for code in range(sys.maxunicode + 1):
        sign = chr(code)
        name, kind = unicodedata.name(sign, ""), unicodedata.category(sign)
        if kind in ("Lo", "Lm") and name.startswith(UNSPACED):
            assert pattern.fullmatch(sign), name
        if name.startswith(("HANGUL ", "LATIN ", "DEVANAGARI ", "GEORGIAN ", "ETHIOPIC ", "DIGIT ")):
            assert not pattern.fullmatch(sign), name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("naïve", ["naïve"]),
        ("好。我们去「公园」吧！", ["好。", "我", "们", "去「", "公", "园」", "吧！"]),
        ("用abc(def)，x中", ["用", "abc(def)，x", "中"]),
        ("สวัสดี", ["ส", "วั", "ส", "ดี"]),
        ("((((((", ["(((((("]),
        ("", [""]),
    ],
)
def test_words_without_spaces_between_them_are_split(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in word_spans(text, 0, len(text))] == parts
