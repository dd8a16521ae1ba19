"""The linear judge's surface features: one row of numbers from a question's and a draft's words.

Four groups, joined by `features`: what the question asks for and its shape (`question_features`);
the shape of the draft, such as its length, candidates and overlap with the question
(`draft_features`); how the draft hedges: it refuses, denies, asks back, stays vague, warns, or
dates itself (`hedging_features`); and how rare the words are (`rarity_features`). Counts are
log(1 + n), flags 0 or 1.

Deliberately plain: regular expressions that need no model, the same in training and in use, each
linear in the length of the text. Rarity uses that BERT's vocabulary is ordered from frequent to
rare, so a token's id is a rank: what is rarely written about is less likely to be known. With an
encoder of another vocabulary these numbers mean less, and their learnt weights will be small.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Sized


def log_count(things: Sized) -> float:
    """Return log(1 + the number of things)."""
    return math.log1p(len(things))


def flag(found: object) -> float:
    """Return 1.0 where something was found, else 0.0."""
    return 1.0 if found else 0.0


def share(part: Iterable[object], whole: Sized) -> float:
    """Return the fraction of `whole` that `part` makes up; 0.0 of an empty whole."""
    return sum(1 for _ in part) / max(len(whole), 1)


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
    """Return the lower-cased words of a text, in order."""
    return [word.lower() for word in _WORD.findall(text)]


def content_words(found: Iterable[str], asked: Iterable[str] = ()) -> list[str]:
    """Return the words that are neither common nor among those of the question, in order."""
    known = asked if isinstance(asked, frozenset | set) else frozenset(asked)
    return [word for word in found if word not in COMMON and word not in known]


def names(text: str) -> list[str]:
    """Return runs of capitalised words, in order."""
    return _NAME.findall(text)


def asked_names(question: str) -> list[str]:
    """Return the names in a question, ignoring its first letter, which is always a capital."""
    return names(question[1:])


def is_new(name: str, asked: Iterable[str]) -> bool:
    """Return whether a name contains something that the question's words do not."""
    return bool(content_words(words(name), asked))


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


_QUESTION_SHAPE = ("words", "names", "quoted", "commas", "year", "digit")
_ASKS = {
    "who": r"\bwho\b|\bwhose\b|\bwhom\b",
    "when": r"\bwhen\b|\bwhat (?:year|date|day)|\bwhich year|what (?:\w+ )?(?:century|decade)",
    "where": r"\bwhere\b|\b(?:what|which) (?:city|country|state|county|continent|town|nationality)",
    "how_many": r"\bhow many\b|\bhow much\b|\bnumber of\b|\bhow (?:long|old|tall|far|big|large)",
    "how": r"^how\b",
    "why": r"\bwhy\b",
    "what": r"\bwhat\b",
    "which": r"\bwhich\b",
    "yes_no": r"^(?:is|are|was|were|do|does|did|has|have|had|can|could|will|would|should)\b",
    "either_or": r"\bor\b",
    "both": r"\bboth\b|in common|\bsame\b",
    "nationality": r"nationalit|country of origin",
    "kind": r"(?:what|which) (?:type|kind|sort|form|genre|sport|language|colou?r|religion)"
    r"|profession|occupation",
    "superlative": r"\bmost\b|\b(?:high|larg|bigg|tall|long|great|old|small|low|fast|strong|rich"
    r"|young|popul)\w*est\b|\brecord\b|\bbest\b",
    "recent": r"\blast\b|\blatest\b|\bcurrent(?:ly)?\b|\bnow\b|\bnext\b|\bnew\b|\btoday\b"
    r"|\bthis year\b|20(?:1[5-9]|2\d)",
    "first": r"\bfirst\b|\boriginal",
    "plays": r"\bplay(?:s|ed|ing)?\b|\bvoice|\bstar(?:s|red)?\b|\bportray|\bactor|\bactress"
    r"|\bcast\b|\bcharacter",
    "release": r"come[s]? out|came out|release|air(?:ed)?\b|\bpremi",
    "several": r"^(?:what|which|who) (?:are|were)\b|\bname the\b|\bones\b|\ball\b|\bactors\b"
    r"|\bsongs\b|\bmembers\b",
}
_FORMS = tuple(re.compile(pattern) for pattern in _ASKS.values())

QUESTION_NAMES = (
    *(f"question.{name}" for name in _QUESTION_SHAPE),
    *(f"asks.{name}" for name in _ASKS),
)
"""Names of `question_features`, in order."""


def question_features(question: str) -> list[float]:
    """Return the shape of a question and what it asks for."""
    lowered = question.lower()
    return [
        log_count(words(question)),
        log_count(asked_names(question)),
        flag('"' in question),
        float(question.count(",")),
        flag(YEAR.search(question)),
        flag(re.search(r"\d", question)),
        *(flag(pattern.search(lowered)) for pattern in _FORMS),
    ]


_PHRASES = {
    "refusal": r"i apologi[sz]e|i'm sorry|i am sorry|i cannot|i can't|i am unable|i'm unable"
    r"|i'm not able|i am not able|i could(?: not|n't)|i do(?: not|n't) have"
    r"|i'm not (?:sure|aware|familiar)|i am not (?:sure|aware|familiar)"
    r"|as an? (?:ai|language model)|i don't know|not appropriate|my knowledge",
    "denial": r"there (?:is|are|was|were) no\b|there (?:is|was)n't"
    r"|no (?:record|evidence|information|such|known|specific|definitive)|did not"
    r"|does not (?:have|exist|appear)|never (?:been|had|aired|won|played|released)|not a real"
    r"|fictional (?:character )?(?:and|so)|neither"
    r"|is not (?:a|an|the|possible|clear|known|accurate)|has not (?:been|yet)|have not"
    r"|not (?:aware|familiar|yet)|none of|incorrect|mistak|misunderst|confus|actually",
    "asks_back": r"(?:please|could you|can you) (?:provide|clarify|specify|let me)"
    r"|more (?:context|information|details)|feel free to ask|additional context|rephrase",
    "vague": r"\bcan vary|\bvar(?:y|ies)\b|depend(?:s|ing)? (?:on|upon)|several|various"
    r"|many (?:people|different|actors|artists)|is (?:a )?(?:complex|difficult|subjective)"
    r"|some of the|a number of|numerous|may (?:be|have)|might|possibl[ey]|likely|approximately"
    r"|around|estimated|believed|generally|typically|it is unclear|not clear|debat|disput",
    "caveat": r"it(?:'s| is) (?:worth|important) (?:noting|to note)|please note|however",
    "as_of": r"as of (?:my|20\d\d|today|the)|knowledge cut|up to date|last update|currently"
    r"|most recent",
}
_HEDGES = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _PHRASES.values())

HEDGE_NAMES = tuple(f"{part}.{name}" for name in _PHRASES for part in ("draft", "first"))
"""Names of `hedging_features`, in order."""


def hedging_features(draft: str) -> list[float]:
    """Return for each way to hedge how often the draft does, and whether its first sentence does."""
    first = first_sentence(draft)
    return [
        value
        for pattern in _HEDGES
        for value in (log_count(pattern.findall(draft)), flag(pattern.search(first)))
    ]


_NAMES = (
    *("words", "sentences", "items", "first_words", "short", "cut"),
    *("years", "numbers", "dates", "number_share", "first_date", "first_number"),
    *("yes", "no", "first_new"),
    *("question_share", "first_question_share", "names_kept"),
    *("first_candidates", "candidates", "candidate_share", "repeated", "repeated_last"),
    *("distinct_share", "quotes", "brackets"),
)

SHAPE_NAMES = tuple(f"draft.{name}" for name in _NAMES)
"""Names of `draft_features`, in order."""

_ITEM = re.compile(r"^[^\S\n]*+(?:\d+[.)]|[*•-])\s", re.MULTILINE)
_FULL_STOP = re.compile(r"[.!?)\"']$")
_SHORT = 40


def draft_features(question: str, draft: str) -> list[float]:
    """Return the shape of a draft, in the order of `NAMES`."""
    first, said, asked = first_sentence(draft), words(draft), set(words(question))
    return [
        *_length(draft, first, said),
        *_figures(question, draft, first, len(said)),
        flag(draft.lower().startswith("yes")),
        flag(draft.lower().startswith("no")),
        log_count(content_words(words(first), asked)),
        *_overlap(question, draft, first),
        *_naming(asked, draft, first),
        share(set(said), said),
        math.log1p(draft.count('"')),
        math.log1p(draft.count("(")),
    ]


def _length(draft: str, first: str, said: list[str]) -> list[float]:
    return [
        log_count(said),
        log_count(sentences(draft)),
        log_count(_ITEM.findall(draft)),
        log_count(words(first)),
        flag(len(said) < _SHORT),
        flag(not _FULL_STOP.search(draft)),
    ]


def _figures(question: str, draft: str, first: str, length: int) -> list[float]:
    numbers = NUMBER.findall(draft)
    return [
        log_count(set(YEAR.findall(draft)) - set(YEAR.findall(question))),
        log_count(set(numbers)),
        log_count(DATE.findall(draft)),
        len(numbers) / max(length, 1),
        flag(DATE.search(first)),
        flag(set(NUMBER.findall(first)) - set(NUMBER.findall(question))),
    ]


def _overlap(question: str, draft: str, first: str) -> list[float]:
    asked, named = set(content_words(words(question))), asked_names(question)
    lowered = draft.lower()
    return [
        share(asked & set(words(draft)), asked),
        share(asked & set(words(first)), asked),
        share([name for name in named if name.lower() in lowered], named),
    ]


def _naming(asked: set[str], draft: str, first: str) -> list[float]:
    """Return how many new names the draft has, and how often it repeats those it has first."""
    said = words(draft)
    counts = Counter(said)
    said = [name for name in names(first) if is_new(name, asked)]
    named = [name for name in names(draft) if is_new(name, asked)]
    again = [min(counts[word] for word in content_words(words(name), asked)) for name in said]
    return [
        log_count(said),
        log_count(set(named)),
        share(named, said),
        math.log1p(max(again, default=0)),
        math.log1p(again[-1] if again else 0),
    ]


Pieces = Callable[[str], Sequence[int]]
"""Gives the ids of a word's pieces, without special tokens."""

_PARTS = ("question", "question_names", "first_new", "draft")
_MEASURES = ("rank", "rarest", "pieces")

RARITY_NAMES = tuple(f"rarity.{part}.{measure}" for part in _PARTS for measure in _MEASURES)
"""Names of `rarity_features`: mean and greatest log-rank of the words, and pieces a word."""

_FIRST_WORD = 1996
"""The id of "the" in BERT's uncased vocabulary; marks and letters precede it."""
_NO_WORD = 8.0
"""Log-rank that stands for no word at all: that of a word in the middle."""


def rarity_features(question: str, draft: str, pieces: Pieces) -> list[float]:
    """Return how rare the words of question and draft are, in the order of `NAMES`."""
    asked = words(question)
    named = [word for name in asked_names(question) for word in words(name)]
    parts = (
        content_words(asked),
        content_words(named),
        content_words(words(first_sentence(draft)), asked),
        dict.fromkeys(content_words(words(draft))),
    )
    return [value for part in parts for value in _rare(part, pieces)]


def _rare(found: Iterable[str], pieces: Pieces) -> tuple[float, float, float]:
    split = [ids for ids in map(pieces, found) if ids]
    if not split:
        return _NO_WORD, _NO_WORD, 1.0
    ranks = [math.log(max(1, max(ids) - _FIRST_WORD + 1)) for ids in split]
    return sum(ranks) / len(ranks), max(ranks), sum(map(len, split)) / len(split)


NAMES: tuple[str, ...] = (*QUESTION_NAMES, *SHAPE_NAMES, *HEDGE_NAMES, *RARITY_NAMES)
"""Names of `features`, in order."""


def features(question: str, draft: str, pieces: Pieces) -> list[float]:
    """Return the features of a question and its draft, in the order of `NAMES`.

    White space around either text, and the kind of apostrophe, change nothing.

    Args:
        question: The question.
        draft: The draft answer; may be empty.
        pieces: The encoder's tokenizer, for how rare words are.
    """
    question, draft = (text.strip().replace("’", "'") for text in (question, draft))
    return [
        *question_features(question),
        *draft_features(question, draft),
        *hedging_features(draft),
        *rarity_features(question, draft, pieces),
    ]
