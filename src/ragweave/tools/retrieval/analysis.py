"""How text becomes index terms: one analyzer for the index and for its queries."""

from __future__ import annotations

import re
import threading
import unicodedata
from functools import lru_cache

import Stemmer
from bm25s import stopwords

from ragweave.errors import UsageError

_TERM = re.compile(r"\w+")

_STOP_WORDS: dict[str, tuple[str, ...]] = {
    "danish": stopwords.STOPWORDS_DANISH,
    "dutch": stopwords.STOPWORDS_DUTCH,
    "english": stopwords.STOPWORDS_EN,
    "french": stopwords.STOPWORDS_FRENCH,
    "german": stopwords.STOPWORDS_GERMAN,
    "italian": stopwords.STOPWORDS_ITALIAN,
    "norwegian": stopwords.STOPWORDS_NORWEGIAN,
    "portuguese": stopwords.STOPWORDS_PORTUGUESE,
    "russian": stopwords.STOPWORDS_RUSSIAN,
    "spanish": stopwords.STOPWORDS_SPANISH,
    "swedish": stopwords.STOPWORDS_SWEDISH,
    "turkish": stopwords.STOPWORDS_TURKISH,
}


def languages() -> tuple[str, ...]:
    """Return the languages that have a stemmer, in alphabetical order."""
    return tuple(sorted(Stemmer.algorithms()))


class Analyzer:
    """Lower-cased, stemmed terms of a text without its stop words; safe under threads.

    Languages that bm25s has no stop words for keep all their words. The texts are put in Unicode
    NFC first, so that composed and decomposed accents match.
    """

    def __init__(self, language: str = "english") -> None:
        """Take a Snowball language name.

        Args:
            language: One of `languages()`.

        Raises:
            UsageError: No stemmer has that name.
        """
        if language not in languages():
            known = ", ".join(languages())
            raise UsageError(f"Unknown language {language!r}; choose one of: {known}")
        self.language = language
        self._stop = frozenset(_STOP_WORDS.get(language, ()))
        self._local = threading.local()

    def terms(self, text: str) -> list[str]:
        """Return the terms of `text` in order, repeats kept."""
        found = _TERM.findall(unicodedata.normalize("NFC", text).lower())
        kept = [word for word in found if word not in self._stop]
        terms: list[str] = self._stemmer().stemWords(kept)
        return terms

    def _stemmer(self) -> Stemmer.Stemmer:
        # A Stemmer holds state while it works, so every thread has its own.
        if not hasattr(self._local, "stemmer"):
            self._local.stemmer = Stemmer.Stemmer(self.language)
        return self._local.stemmer


@lru_cache(maxsize=16)
def analyzer_for(language: str) -> Analyzer:
    """Return the shared analyzer of `language` (errors as `Analyzer`)."""
    return Analyzer(language)
