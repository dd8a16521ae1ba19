r"""Words of any script: letters with the marks that belong to them, and one form of each word.

Python's `\w` leaves out combining marks, so that `\w+` finds the letters of किताब one by one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby

_UNSPACED = ("AHOM", "BALINESE", "JAVANESE", "KHMER", "LAO", "MYANMAR", "NEW TAI", "TAI", "THAI")
"""How the names of marks begin in scripts that put no space between words.

A run of their letters is no word but a phrase; their marks go on to part it, so that phrases which
share some of their pieces are still found.
"""
_SELECTORS = range(0xFE00, 0xFE10)
"""Variation selectors, which choose how a sign looks: `1️⃣` begins with the 1 of any other text."""


def _marks() -> str:
    """Return the marks as ranges of a regular expression's class."""
    codes = [code for code in range(0x300, 0x1F000) if _belongs(chr(code))]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in _ranges(codes))


def _belongs(mark: str) -> bool:
    return (
        unicodedata.category(mark) in ("Mn", "Mc")
        and ord(mark) not in _SELECTORS
        and not unicodedata.name(mark).startswith(_UNSPACED)
    )


def _ranges(codes: list[int]) -> Iterator[tuple[int, int]]:
    for _, run in groupby(enumerate(codes), lambda pair: pair[1] - pair[0]):
        held = [code for _, code in run]
        yield held[0], held[-1]


_MARKS = rf"(?![\0-\u02ff])[{_marks()}]+"
"""Behind most words stands a blank, which the look ahead rules out before the long class."""

WORD = rf"\w+(?:{_MARKS}\w*)*"
"""Pattern of a word: letters, digits and underscores, each with its marks."""
LETTERS = rf"[^\W_]+(?:{_MARKS}[^\W_]*)*"
"""Pattern of the same without underscores."""

_WORD = re.compile(WORD)


def _is_raised(sign: str) -> bool:
    """Say whether a sign is a digit above or below the line, as in m² and H₂O."""
    return sign.isdigit() and unicodedata.decomposition(sign).startswith(("<super>", "<sub>"))


def folded(word: str) -> str:
    """Return a word in lower case and Unicode's form NFKC: composed accents, no ligatures.

    It stays in NFC where NFKC would make it several words (½, ﷺ) or another number (10⁵). The
    capital İ becomes an i without the second dot that Python gives it.
    """
    if word.isascii():
        return word.lower()
    compatible = unicodedata.normalize("NFKC", word)
    parted = compatible != word and _WORD.sub("", compatible) != _WORD.sub("", word)
    if parted or any(map(_is_raised, word)):
        compatible = unicodedata.normalize("NFC", word)
    return compatible.lower().replace("i\u0307", "i")
