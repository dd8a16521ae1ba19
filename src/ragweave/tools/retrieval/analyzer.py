"""The analyzer: text to terms, the same for an index and its queries.

Words are lower-cased and stemmed, and have no accents. Scripts that put no space between words (Han,
kana, Thai, Khmer …), and Hangul, whose particles are attached to words, become pairs of neighbouring
letters, as Lucene's CJKAnalyzer makes them. `C++` and `C#` are terms of their own.

Terms in one piece stand beside their parts: a word broken at a line's end, a code with hyphens
(`KX-7741-B`: `kx7741b`), a number with separators (`1,500`: `1500`), a name with a dot (`.NET`: `.net`)
and a stop word in capitals (`IT`).
"""

import json
import re
import threading
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import Stemmer

from ragweave.errors import UsageError
from ragweave.tools.text.words import STOP_WORDS, UNSPACED_LETTER, UNSPACED_MARK, WORD, folded, unaccented

_SIGNED = r"\b[a-z](?:\+\+|#(?!\w))"
"""A letter that its signs make another name: C++, C#, F#."""
_ASCII_WORD = re.compile(r"\w+")
_ASCII_OR_SIGNED = re.compile(rf"{_SIGNED}|\w+")
_CODE = re.compile(r"(?<![^\W_])[^\W_]+(?:[-\u2010\u2011][^\W_]+)+")
_NUMBER = re.compile(r"(?<![\w.,])\d{1,3}([.,'’\u00a0\u202f])\d{3}(?:\1\d{3})*(?!\d)")
_DOTTED = re.compile(r"(?<![\w.])\.[^\W\d_]\w*")
_CAPITALS = re.compile(r"\b[A-Z]{2,5}\b")
_LETTER = rf"(?:{UNSPACED_LETTER}|[\uac00-\ud7a3])"
_RUN = rf"([\u0e00-\U0003fffd](?<={_LETTER})(?:{_LETTER}|{UNSPACED_MARK})*)"
"""A range of characters stands first, as it rules out most of them quickly."""
_UNIT = rf"{_LETTER}{UNSPACED_MARK}*"
_BROKEN = re.compile(r"\b(\w+)[-\u00ad\u2010]\n[ \t]*([a-z\u00df-\u024f]\w*)")
_STOP_WORDS = Path(__file__).with_name("stop_words.json")
"""By language, words that stand in most texts. English has those of Lucene, with which results are published."""


class Analyzer:
    """Terms of a text in a language; safe to use from threads.

    Examples:
        >>> Analyzer("english").terms("The cats sat. 图书馆")
        ['cat', 'sat', '图书', '书馆']
        >>> Analyzer("english").terms("The café sells C++ books at 1,500.")
        ['cafe', 'sell', 'c++', 'book', '1', '500', '1500']
    """

    def __init__(self, language: str = "english") -> None:
        """Take the name of a Snowball language.

        Raises:
            UsageError: There is no stemmer of this name.
        """
        if language not in Stemmer.algorithms():
            known = ", ".join(sorted(Stemmer.algorithms()))
            raise UsageError(
                f"unknown language {language!r}; choose one of: {known} (Chinese, Japanese, Thai need none)"
            )
        stop_words: dict[str, str] = json.loads(_STOP_WORDS.read_text("utf-8"))
        self._language, self._stop = language, frozenset(stop_words.get(language, "").split())
        self._function_words = self._stop | (STOP_WORDS if language == "english" else frozenset())
        self._local = threading.local()

    def terms(self, text: str) -> list[str]:
        """Return the terms of a query in order, repeats kept: without stop words, unless it has function words alone."""
        words = _words(text)
        if not self._function_words.issuperset(words):
            words = [word for word in words if word not in self._stop]
        return self._stemmed(words) + self._abbreviations(text)

    def index_terms(self, text: str) -> list[str]:
        """Return the terms of a passage in order, repeats and stop words kept."""
        return self._stemmed(_words(text)) + self._abbreviations(text)

    def _stemmed(self, words: list[str]) -> list[str]:
        """Return the stems without accents, and those of the words without accents where they differ."""
        if not hasattr(self._local, "stemmer"):  # a Stemmer holds state while it works
            self._local.stemmer = Stemmer.Stemmer(self._language)
        stems: list[str] = self._local.stemmer.stemWords(words)
        accented = [at for at, word in enumerate(words) if not word.isascii()]
        plain = self._local.stemmer.stemWords([unaccented(words[at]) for at in accented])
        for at in accented:
            stems[at] = unaccented(stems[at])
        return stems + [stem for at, stem in zip(accented, plain, strict=True) if stem != stems[at]]

    def _abbreviations(self, text: str) -> list[str]:
        """Return the stop words that a text has in capitals, if not all of it is."""
        capitals = [] if text.isupper() else _CAPITALS.findall(text)
        return [word for word in capitals if word.lower() in self._stop]


def _words(text: str) -> list[str]:
    """Return the words of a text, and after them what stands beside its parts."""
    lowered = text.lower()
    if not text.isascii():
        words = _any_words(lowered)
    else:
        words = (_ASCII_OR_SIGNED if "++" in text or "#" in text else _ASCII_WORD).findall(lowered)
    if "-\n" in text or "\u00ad\n" in text or "\u2010\n" in text:
        words += [f"{start}{end}".lower() for start, end in _BROKEN.findall(text)]
    words += [re.sub(r"\W", "", number[0]) for number in _NUMBER.finditer(text)]
    words += [
        re.sub(r"\W", "", code)
        for code in _CODE.findall(lowered)
        if re.search(r"\d", code) and re.search(r"[^\W\d]", code)
    ]
    words += _DOTTED.findall(lowered)
    return words


def _any_words(text: str) -> list[str]:
    """Return the words of a text in lower case that is not ASCII alone, and runs of unspaced letters as pairs.

    Its patterns have long character classes and take time to compile, which waits for the first such text.
    """
    words: list[str] = []
    for at, part in enumerate(re.split(_RUN, text)):
        if at % 2:  # a run
            letters = re.findall(_UNIT, folded(part))
            words += ["".join(pair) for pair in pairwise(letters)] or letters
        else:
            words += [word if word.isascii() else folded(word) for word in re.findall(f"{_SIGNED}|{WORD}", part)]
    return words


analyzer_for = lru_cache(maxsize=16)(Analyzer)
"""The shared analyzer of a language."""
