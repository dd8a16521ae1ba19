"""English questions: the kind of answer they ask for, and their words (tokens, stems, stop words)."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import Stemmer

from ragweave.tools.text.letters import LETTERS, folded


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
    rf"|['’]s\b|{LETTERS}(?:(?!['’]s\b)['’\-.&]{LETTERS})*|[^\w\s]"
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
    """Return the Snowball English stem of `word`, lower-cased, in one Unicode form."""
    with _LOCK:  # PyStemmer's stemmers are not safe under threads
        return str(_stemmer().stemWord(folded(word).replace("’", "'")))


def terms(text: str) -> list[str]:
    """Return the stems of the content words of `text`; scripts without spaces give bigrams."""
    found: list[str] = []
    for token in tokens(text):
        if not token.is_word or token.is_stop:
            continue
        word = folded(token.text)
        if _CJK.search(word):
            found += [word[i : i + 2] for i in range(max(1, len(word) - 1))]
        else:
            found.append(stem(word))
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
