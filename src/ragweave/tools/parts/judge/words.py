"""Pieces of questions and drafts: words, names, figures, sentences, and what a draft puts forward.

Deliberately plain: regular expressions that need no model, the same in training and in use. Each
takes time linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

YEAR = re.compile(r"\b(1[0-9]\d\d|20\d\d)s?\b")
"""A year, without the s of a decade."""
NUMBER = re.compile(r"\b\d[\d,.]*\b")

_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
DATE = re.compile(
    rf"\b(?:{_MONTH})\s+\d{{1,2}},?\s+\d{{4}}|\d{{1,2}}\s+(?:{_MONTH})\s+\d{{4}}", re.IGNORECASE
)
"""A day, month and year."""

COMMON = frozenset(
    (
        *("a", "an", "the", "of", "in", "on", "at", "to", "for", "and", "or", "by", "with", "from"),
        *("is", "was", "were", "are", "be", "been", "did", "do", "does", "has", "have", "had"),
        *("as", "that", "this", "it", "its", "his", "her", "their", "he", "she", "they", "there"),
        *("which", "who", "what", "when", "where", "how", "why", "not", "no", "but", "also"),
        *("these", "those", "than", "then", "one", "into", "about", "after", "before", "during"),
        *("over", "first", "name", "most", "many", "much"),
    )
)
"""Words that say little about what a text is about."""

_WORD = re.compile(r"[A-Za-z0-9À-ÿ]+(?:['’][A-Za-z]+)?")
_CAPITAL = r"[A-ZÀ-Ý][\w'’.-]*"
_NAME = re.compile(rf"\b{_CAPITAL}(?:\s+(?:(?:of|the|de|and|van|von)\s+)?{_CAPITAL})*")
_END = re.compile(r"(?<=[.!?])[\"')]?\s+|\n+")


def words(text: str) -> list[str]:
    """Return the words of a text in small letters, in order."""
    return [word.lower() for word in _WORD.findall(text)]


def telling(found: Iterable[str], asked: Iterable[str] = ()) -> list[str]:
    """Return the words that are neither common nor among those of the question, in order."""
    known = asked if isinstance(asked, frozenset | set) else frozenset(asked)
    return [word for word in found if word not in COMMON and word not in known]


def names(text: str) -> list[str]:
    """Return runs of capitalised words, in order."""
    return _NAME.findall(text)


def asked_names(question: str) -> list[str]:
    """Return the names in a question; its first letter is a capital whatever it begins."""
    return names(question[1:])


def is_new(name: str, asked: Iterable[str]) -> bool:
    """Tell whether a name says something that the question's words do not."""
    return bool(telling(words(name), asked))


def sentences(text: str) -> list[str]:
    """Split a draft at sentence ends and line breaks."""
    return [part for part in _END.split(text.strip()) if part.strip()]


def first_sentence(draft: str) -> str:
    """Return the draft's first sentence, or the empty text."""
    return next(iter(sentences(draft)), "")


def candidates(question: str, text: str) -> list[str]:
    """Return names, dates and numbers of `text` that the question does not hold, once each."""
    asked = set(words(question))
    named = [name.strip(" .,'\"") for name in names(text) if is_new(name, asked)]
    figures = [one for one in DATE.findall(text) + NUMBER.findall(text) if set(words(one)) - asked]
    return list(dict.fromkeys([*named, *figures]))
