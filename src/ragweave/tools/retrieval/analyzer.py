"""The analyzer: text to terms, the same for an index and its queries.

Words are lower-cased and stemmed, stop words dropped. Scripts that put no space between words (Han,
kana, Thai, Khmer …), and Hangul, whose particles are attached to words, become pairs of neighbouring
letters, as Lucene's CJKAnalyzer makes them. A word broken at a line's end is a term in one piece, too.
"""

import json
import re
import threading
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import Stemmer

from ragweave.errors import UsageError
from ragweave.tools.text.words import UNSPACED_LETTER, UNSPACED_MARK, WORD, folded

_ASCII_WORD = re.compile(r"\w+")
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
        self._local = threading.local()

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text` in order, repeats kept."""
        words = _ASCII_WORD.findall(text.lower()) if text.isascii() else _words(text)
        if "-\n" in text or "\u00ad\n" in text or "\u2010\n" in text:
            words += [f"{start}{end}".lower() for start, end in _BROKEN.findall(text)]
        if not hasattr(self._local, "stemmer"):  # a Stemmer holds state while it works
            self._local.stemmer = Stemmer.Stemmer(self._language)
        terms: list[str] = self._local.stemmer.stemWords([word for word in words if word not in self._stop])
        return terms


def _words(text: str) -> list[str]:
    """Return the words of a text that is not ASCII alone, and runs of unspaced letters as pairs.

    Its patterns have long character classes and take time to compile, which waits for the first such text.
    """
    words: list[str] = []
    for at, part in enumerate(re.split(_RUN, text.lower())):
        if at % 2:  # a run
            letters = re.findall(_UNIT, folded(part))
            words += ["".join(pair) for pair in pairwise(letters)] or letters
        else:
            words += [word if word.isascii() else folded(word) for word in re.findall(WORD, part)]
    return words


analyzer_for = lru_cache(maxsize=16)(Analyzer)
"""The shared analyzer of a language."""
