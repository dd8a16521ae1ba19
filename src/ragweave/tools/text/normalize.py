"""Answer normalisation and word tokens, shared by votes, extraction and metrics."""

from __future__ import annotations

import re
import string

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "“”‘’–—…«»")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")


def normalize_answer(text: str) -> str:
    """Lower-case `text`, drop punctuation and English articles, fold white space.

    Source: the SQuAD evaluation rule (Rajpurkar et al. 2016), which Liu et al. (section 4) use
    for votes and exact match. Typographic quotes and dashes count as punctuation too.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def words(text: str) -> list[str]:
    """Return the lower-cased words of `text` in order (letters and digits, inner apostrophes)."""
    return _WORD.findall(text.lower())
