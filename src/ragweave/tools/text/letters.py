r"""Words of any script: letters with the marks that belong to them, and one form of each word.

Python's `\w` leaves out combining marks, so that `\w+` finds the letters of किताब one by one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

_UNSPACED = ("AHOM", "BALINESE", "JAVANESE", "KHMER", "LAO", "MYANMAR", "NEW TAI", "TAI", "THAI")
"""How the names of marks begin in scripts that put no space between words.

A run of their letters is no word but a phrase; their marks go on to part it, so that phrases which
share some of their pieces are still found.
"""
_BLOCKS = (
    r"\u0e00-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f\u3005-\u312f\u31a0-\u31bf"
    r"\u31f0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    r"\U00011700-\U0001174f\U0001aff0-\U0001b16f\U00020000-\U0003fffd"
)
"""Blocks of such scripts: from Thai to Myanmar, Khmer, Tai, Balinese, kana, Han, Yi, Javanese."""
_SELECTORS = range(0xFE00, 0xFE10)
"""Variation selectors, which choose how a sign looks: `1️⃣` begins with the 1 of any other text."""


def _marks(codes: Iterable[int], belongs: Callable[[str], object]) -> str:
    """Return the marks among some codes as ranges of a regular expression's class."""
    found = [code for code in codes if unicodedata.category(chr(code)) in ("Mn", "Mc") and belongs(chr(code))]
    runs = [[code for _, code in run] for _, run in groupby(enumerate(found), lambda pair: pair[1] - pair[0])]
    return "".join(f"{chr(run[0])}-{chr(run[-1])}" for run in runs)


def _is_spaced(mark: str) -> bool:
    return ord(mark) not in _SELECTORS and not unicodedata.name(mark).startswith(_UNSPACED)


_MARKS = rf"(?![\0-\u02ff])[{_marks(range(0x300, 0x1F000), _is_spaced)}]+"
"""Behind most words stands a blank, which the look ahead rules out before the long class."""

WORD = rf"\w+(?:{_MARKS}\w*)*"
"""Pattern of a word: letters, digits and underscores, each with its marks."""
LETTERS = rf"[^\W_]+(?:{_MARKS}[^\W_]*)*"
"""Pattern of the same without underscores."""

_UNSPACED_MARKS = _marks(
    (*range(0xE00, 0x3100), *range(0xA900, 0xAB00), *range(0x11700, 0x11750)), re.compile(f"[{_BLOCKS}]").match
)

UNSPACED_LETTER = rf"[{_BLOCKS}](?<=[^\W\d_])"
"""Pattern of a letter, syllable or ideograph of a script that puts no space between words."""
UNSPACED_MARK = rf"[{_UNSPACED_MARKS}\ufe00-\ufe0f\U000e0100-\U000e01ef]"
"""Pattern of a mark that belongs to the letter before it."""

_LETTER = re.compile(UNSPACED_LETTER)
_PARTS = re.compile(rf"{UNSPACED_LETTER}{UNSPACED_MARK}*[^\w\s]*|(?:(?!{UNSPACED_LETTER})\S)+")


def apart(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the span of a word, `text[start:end]`; of each of its letters where a script has no spaces between words.

    Such a letter keeps its marks and the punctuation behind it. A word without them is yielded as it is.
    """
    if _LETTER.search(text, start, end) is None:
        yield start, end
    else:
        yield from (part.span() for part in _PARTS.finditer(text, start, end))


def folded(word: str) -> str:
    """Return a word in lower case and Unicode's form NFKC: composed accents, no ligatures.

    The capital İ becomes an i without the second dot that Python gives it.
    """
    return unicodedata.normalize("NFKC", word).lower().replace("i\u0307", "i")
