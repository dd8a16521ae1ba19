"""The content words of a text, as stems: what questions, sentences and answers are compared by."""

from __future__ import annotations

import re
import threading
from functools import cache, lru_cache

import Stemmer

from ragweave.tools.text.letters import LETTERS, folded

_FUNCTION_WORDS = """
a an the of in on at by for to from with without into onto over under and or but nor so as
than then that this these those it its itself he she they them him her his hers their theirs
we us our you your i me my is are was were be been being am do does did done doing has have
had having can could will would shall should may might must not no s t what which who whom
whose when where why how there here also just only about between during before after up out
off again if because while such both each some any all more most other per via upon within
among through across against according
"""
STOP_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English function words."""

_WORD = re.compile(
    r"\d+(?:[.,:]\d+)*(?:st|nd|rd|th|s|%)?(?![^\W_])"
    rf"|['’]s\b|{LETTERS}(?:(?!['’]s\b)['’\-.&]{LETTERS})*"
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LOCK = threading.Lock()


def terms(text: str) -> list[str]:
    """Return the stems of the content words of `text`; scripts without spaces give bigrams."""
    found: list[str] = []
    for word in map(folded, _WORD.findall(text)):
        if _UNSPACED.search(word):
            found += [word[at : at + 2] for at in range(max(1, len(word) - 1))]
        elif word[0].isalnum() and word not in STOP_WORDS:
            found.append(_stem(word.replace("’", "'")))
    return found


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    with _LOCK:  # PyStemmer's stemmers are not safe under threads
        return str(_stemmer().stemWord(word))


@cache
def _stemmer() -> Stemmer.Stemmer:
    return Stemmer.Stemmer("english")
