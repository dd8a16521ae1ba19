"""The analyzer: text to terms, the same for an index and its queries.

Words are lower-cased and stemmed, stop words dropped. Scripts that put no space between words (Han,
kana, Thai, Khmer …), and Hangul, whose particles cling to words, become pairs of neighbouring
letters, as Lucene's CJKAnalyzer makes them. A word broken at a line's end counts whole as well.
"""

import re
import threading
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise

import Stemmer

from ragweave.errors import UsageError
from ragweave.tools.text.words import UNSPACED_LETTER, UNSPACED_MARK, WORD, folded

_ASCII_WORD = re.compile(r"\w+")
_LETTER = rf"(?:{UNSPACED_LETTER}|[\uac00-\ud7a3])"
_RUN = rf"([\u0e00-\U0003fffd](?<={_LETTER})(?:{_LETTER}|{UNSPACED_MARK})*)"
"""The range stands first as it is the quickest to rule out."""
_ONE = rf"{_LETTER}{UNSPACED_MARK}*"
_BROKEN = re.compile(r"\b(\w+)[-\u00ad\u2010]\n[ \t]*([a-z\u00df-\u024f]\w*)")
_ENGLISH = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
"""Lucene's stop words, as in bm25s, which has those of the other languages."""


class Analyzer:
    """Terms of a text in a language; safe to use from threads.

    Examples:
        >>> Analyzer("english").terms("The cats sat. 图书馆")
        ['cat', 'sat', '图书', '书馆']
    """

    def __init__(self, language: str = "english") -> None:
        """Take a Snowball language name; `UsageError` if no stemmer has it."""
        if language not in Stemmer.algorithms():
            known = ", ".join(sorted(Stemmer.algorithms()))
            raise UsageError(
                f"unknown language {language!r}; choose one of: {known} (Chinese, Japanese, Thai need none)"
            )
        words: Iterable[str] = _ENGLISH.split()
        if language != "english":  # bm25s imports scipy: half a second
            from bm25s import stopwords

            words = getattr(stopwords, f"STOPWORDS_{language.upper()}", ())
        self._language, self._stop = language, frozenset(words)
        self._local = threading.local()

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text` in order, repeats kept."""
        words = _ASCII_WORD.findall(text.lower()) if text.isascii() else _words(text)
        if "-\n" in text or "\u00ad\n" in text or "\u2010\n" in text:
            words += [f"{one}{two}".lower() for one, two in _BROKEN.findall(text)]
        if not hasattr(self._local, "stemmer"):  # a Stemmer holds state while it works
            self._local.stemmer = Stemmer.Stemmer(self._language)
        terms: list[str] = self._local.stemmer.stemWords([word for word in words if word not in self._stop])
        return terms


def _words(text: str) -> list[str]:
    """Return the words of a text beyond ASCII, runs of unspaced letters as pairs.

    Its patterns have long classes, which take time to compile: that is left to the first such text.
    """
    words: list[str] = []
    for at, part in enumerate(re.split(_RUN, text.lower())):
        if at % 2:  # a run
            letters = re.findall(_ONE, folded(part))
            words += ["".join(pair) for pair in pairwise(letters)] or letters
        else:
            words += [word if word.isascii() else folded(word) for word in re.findall(WORD, part)]
    return words


analyzer_for = lru_cache(maxsize=16)(Analyzer)
"""The shared analyzer of a language."""
