"""What kind of answer an English question asks for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ragweave.tools.models.extractive.words import QUESTION_WORDS, stem, terms, tokens

Kind = Literal["person", "place", "date", "number", "yes_no", "definition", "list", "phrase"]
"""Kinds of answers; `phrase` is any other noun phrase."""


_EDGE = 800
"""Characters read at either end of a long question: the patterns below are not linear."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question as the extractive model reads it."""

    text: str
    kind: Kind
    head: str
    """Stem of the noun asked for ("what *city* …", "how many *words* …"), or ""."""
    terms: frozenset[str]
    """Stems of its content words; its question words dropped."""


_DATE = (
    r"(?:what|which|in what|in which|on what|on which|during which|from what)\b(?: \w+)?? "
    r"(?:years?|dates?|day|month|century|decade|time|season|era|period)\b"
)
_PLACE = (
    r"(?:in |at |on |to |from |of )?(?:what|which) (?:\w+ )??(?:city|cities|country|countries|state|"
    r"states|town|village|county|continent|island|place|region|province|location|district|river|"
    r"ocean|sea|planet|building|street|stadium)\b"
)
_PERSON = (
    r"(?:what|which) (?:\w+ ){0,2}?(?:person|man|woman|actor|actress|singer|author|writer|president|"
    r"king|queen|player|artist|director|scientist|poet|composer|philosopher|politician)\b"
)
_NUMBER = (
    r"how (?:many|much|long|old|far|tall|high|big|large|often|deep|fast|heavy|wide|hot|cold|few)\b"
    r"|(?:what|which) (?:is |was |are )?(?:the )?(?:\w+ )?(?:number|percentage|percent|population|"
    r"amount|age|height|length|distance|temperature|price|cost|score)\b"
)
_LIST = (
    r"(?:what|which|who) (?:are|were) (?:the|some)\b|(?:list|name|cast|members)\b"
    r"|(?:what|which) (?:two|three|four|five|six|seven|several)\b"
)
_AUXILIARY = (
    r"(?:is|are|was|were|do|does|did|can|could|has|have|had|will|would|should|may|might|must)\b"
    r"(?!.*\b(?:what|which|who|whom|when|where|why|how)\b)(?!.*\bor\b)"
)
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    ("yes_no", rf"^{_AUXILIARY}"),
    ("number", rf"\b(?:{_NUMBER})"),
    ("date", rf"\bwhen\b|\b(?:{_DATE})"),
    ("list", rf"^(?:{_LIST})"),
    ("place", rf"\bwhere\b|\b(?:{_PLACE})"),
    ("person", rf"\b(?:who|whom|whose)\b|\b(?:{_PERSON})"),
    ("definition", r"\bwhat (?:does|do|did|is|was) .*\b(?:mean|stand for|definition)\b"),
    (
        "definition",
        r"^what(?:'s| is| are| was| were) (?:an? )?(?!the |of )\S+(?: (?!the |of )\S+){0,3}$",
    ),
    ("definition", r"^(?:why|how)\b"),
)
_RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern)) for kind, pattern in _PATTERNS
)
_HEAD = re.compile(
    r"\b(?:what|which|how many|how much)(?:'s)?(?: (?:is|are|was|were))?"
    r"(?: (?:the|a|an|of|two|three|first|last|name|names))* (\S+)(?: of\b (?:the )?(\S+))?"
)


def analyse(text: str) -> Question:
    """Read the kind, head noun and content words off a question; any text gives some reading.

    Of a text longer than a question only its two ends are read.
    """
    if len(text) > 2 * _EDGE:
        text = f"{text[:_EDGE]} {text[-_EDGE:]}"
    lowered = " ".join(text.lower().replace("’", "'").rstrip("?!. ").split())
    kind: Kind = next((kind for kind, rule in _RULES if rule.search(lowered)), "phrase")
    found = _HEAD.search(lowered)
    asked = {word for word in tokens(lowered) if word.text in QUESTION_WORDS}
    drop = {stem(word.text) for word in asked}
    content = frozenset(terms(lowered))
    return Question(text, kind, stem(found[1]) if found else "", content - drop or content)
