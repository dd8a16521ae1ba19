"""Words of English sentences for the extractive model: tokens, stems, stop words."""

from __future__ import annotations

import re
import threading
from functools import cache, lru_cache
from typing import NamedTuple

import Stemmer


def word_set(text: str) -> frozenset[str]:
    """Return the set of the words of `text`, which white space parts."""
    return frozenset(text.split())


STOP_WORDS = word_set(
    """
    a an the of in on at by for to from with without into onto over under and or but nor so as
    than then that this these those it its itself he she they them him her his hers their theirs
    we us our you your i me my is are was were be been being am do does did done doing has have
    had having can could will would shall should may might must not no s t what which who whom
    whose when where why how there here also just only about between during before after up out
    off again if because while such both each some any all more most other per via upon within
    among through across against according
    """
)
"""Function words: they neither support a sentence nor begin or end an answer."""

QUESTION_WORDS = word_set(
    """
    name names called please tell list give mean means meaning many much kind type sort happen
    happened take place get got
    """
)
"""Words of questions that say how to answer rather than what about."""

NEGATIONS = word_set(
    """
    not no never none neither nor cannot without nobody nothing
    """
)

_TOKEN = re.compile(
    r"\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s|%)?(?![^\W_])"
    r"|['’]s\b|[^\W_]+(?:(?!['’]s\b)['’\-.&][^\W_]+)*|[^\w\s]"
)
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LOCK = threading.Lock()


class Token(NamedTuple):
    """A word or a punctuation mark and where it stands."""

    text: str
    start: int
    end: int

    @property
    def is_word(self) -> bool:
        """Is it a word or a number, not punctuation?"""
        return self.text[0].isalnum()

    @property
    def is_stop(self) -> bool:
        """Is it a function word?"""
        return self.text.lower() in STOP_WORDS


def tokens(text: str) -> list[Token]:
    """Return words and punctuation of `text` in order; a possessive 's stands alone."""
    return [Token(one.group(), one.start(), one.end()) for one in _TOKEN.finditer(text)]


@lru_cache(maxsize=50_000)
def stem(word: str) -> str:
    """Return the Snowball English stem of `word`, lower-cased."""
    with _LOCK:  # PyStemmer's stemmers are not safe under threads
        return str(_stemmer().stemWord(word.lower().replace("’", "'")))


def terms(text: str) -> list[str]:
    """Return the stems of the content words of `text`; scripts without spaces give bigrams."""
    found: list[str] = []
    for token in tokens(text):
        if not token.is_word or token.is_stop:
            continue
        if _CJK.search(token.text):
            word = token.text
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        else:
            found.append(stem(token.text))
    return found


def negated(text: str) -> bool:
    """Does `text` hold a negation?"""
    return any(
        word.text.lower() in NEGATIONS or word.text.lower().endswith(("n't", "n’t"))
        for word in tokens(text)
    )


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
