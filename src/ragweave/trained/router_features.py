"""What a router reads off a question, a draft answer and a first look at the corpus, as numbers.

`draft_features`: how the question is put (its length, how many hops its wording takes, what it asks
for), the shape of the draft's answer and whether it is of the kind that was asked for, and how the
reasoning before it is written: long or short, specific, hedged, repeating itself.
`look_features`: whether a cheap search agrees with the draft, and how much the corpus holds about
what it names. Both are plain and quick, and neither sees a gold answer: a row is (question, draft)
and, for the look, what `look_queries` find.

Sources: the groups of arXiv 2505.04253 (question type, complexity, popularity, knowledgability),
made without a language model; overlap of the draft and the evidence after arXiv 2402.10612 (Rowen).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from langchain_core.documents import Document

from ragweave.tools.text.normalize import normalize_answer
from ragweave.trained.judge_features import content_words, flag, log_count, share, words

_CONCLUSION = re.compile(r"\bso,? the (?:final )?answer is:?\s*", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_PLAIN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
"""A word, its capitals kept."""
_MARKS = " \t\n.,;:!?\"'"


class Draft(NamedTuple):
    """A draft answer in its two parts."""

    answer: str
    """The short answer; the first sentence where the draft names none."""
    reasoning: str
    """What stands before it; empty where the draft is an answer alone."""


def read_draft(draft: str) -> Draft:
    """Split a draft at "So the answer is", or behind its first sentence where it never says so."""
    text = draft.strip()
    found = list(_CONCLUSION.finditer(text))
    if found:
        last = found[-1]
        return Draft(text[last.end() :].strip(_MARKS), text[: last.start()].strip())
    return Draft(_SENTENCE.split(text, maxsplit=1)[0].strip(_MARKS), text)


_YEAR = re.compile(r"\b\d{4}\b")
_DIGIT = re.compile(r"\d")
_YES_NO = re.compile(r"(?:yes|no)\b", re.IGNORECASE)
_HOP = re.compile(r"\b(?:of|by|that|which|whose|where|who)\b|'s\b")
_MANY_HOPS = 3

_ASKS = {
    "who": r"\bwho\b|\bwhose\b|\bwhom\b",
    "when": r"\bwhen\b|\bwhat (?:year|date|day)\b|\bwhich year\b|\bdate of\b",
    "where": r"\bwhere\b|\b(?:what|which) (?:city|country|state|place)\b|\bplace of\b",
    "how_many": r"\bhow (?:many|much|long|old|far|tall)\b|\bnumber of\b|\bpopulation\b",
    "yes_no": r"^(?:is|are|was|were|do|does|did|has|have|can|could|will|would)\b",
}
_TOPICS = {
    "compares": r"\bboth\b|\bsame\b|\bor\b",
    "life": r"\bborn\b|\bdied\b|\bdeath\b|\bbirth",
    "family": r"\b(?:father|mother|spouse|wife|husband|son|daughter|grand\w+)\b",
    "film": r"\bdirector\b|\bfilm\b|\bmovie\b",
    "country": r"\bnationality\b|\bcountry\b",
    "year": r"\b(?:19|20)\d\d\b",
    "quotes": r"\"",
    "what_first": r"^(?:which|what)\b",
    "preposition_last": r"\b(?:in|of|the)\b(?:\W+\w+)?\W*$",
}
_ASKED = tuple(re.compile(pattern) for pattern in _ASKS.values())
_ABOUT = tuple(re.compile(pattern) for pattern in _TOPICS.values())

_QUESTION = (
    *("words", "mark", "lower_case", "hops", "many_hops", "names_share", "names"),
    *(f"asks.{name}" for name in _ASKS),
    *(f"about.{name}" for name in _TOPICS),
)
_ANSWER = (
    *("words", "long", "capitals", "year", "digit", "yes_no", "in_question", "question_share"),
    "longest_word",
)
_AGREEMENT = (
    *("when_without_digit", "who_with_digit", "count_without_digit", "place_with_digit"),
    *("yes_no_without", "who_capitals", "when_year", "place_capitals", "count_digit"),
)
_REASONING = (
    *("sentences", "words", "new_share", "distinct_share", "holds_answer", "concludes"),
    *("hedges", "answer_hedges", "digits", "capitals_share"),
)
DRAFT_NAMES: tuple[str, ...] = (
    *(f"question.{name}" for name in _QUESTION),
    *(f"answer.{name}" for name in _ANSWER),
    *(f"agrees.{name}" for name in _AGREEMENT),
    *(f"reasoning.{name}" for name in _REASONING),
)
"""Names of `draft_features`, in order."""

_HEDGE = re.compile(
    r"\b(?:unknown|not (?:known|available|specified|mentioned|provided|clear|possible|sure)"
    r"|none|n/a|cannot|no information|unclear|there is no)\b"
)
_NO_ANSWER = re.compile(r"\b(?:unknown|none|n/a|not|no)\b")
_LONG_ANSWER = 8


def draft_features(question: str, draft: str) -> list[float]:
    """Return the features of a question and its draft, in the order of `DRAFT_NAMES`.

    Args:
        question: The question.
        draft: A model's answer without retrieval, its reasoning before it if there is one.
    """
    asked, said = question.strip().replace("’", "'"), read_draft(draft.replace("’", "'"))
    kinds = [flag(pattern.search(asked.lower())) for pattern in _ASKED]
    shape = _of_answer(asked, said.answer)
    return [
        *_of_question(asked, kinds),
        *shape,
        *_agreement(kinds, shape),
        *_of_reasoning(asked, said, flag(_CONCLUSION.search(draft))),
    ]


def _of_question(asked: str, kinds: Sequence[float]) -> list[float]:
    lowered, said = asked.lower(), _PLAIN.findall(asked)
    named = [word for word in said[1:] if word[:1].isupper()]
    hops = len(_HOP.findall(lowered))
    return [
        log_count(said),
        flag(asked.endswith("?")),
        flag(asked[:1].islower()),
        float(min(hops, 12)),
        flag(hops >= _MANY_HOPS),
        len(named) / max(len(said), 1),
        log_count(named),
        *kinds,
        *(flag(pattern.search(lowered)) for pattern in _ABOUT),
    ]


def _of_answer(asked: str, answer: str) -> list[float]:
    said, known = words(answer), set(words(asked))
    plain = _PLAIN.findall(answer)
    capitals = [word for word in plain if word[:1].isupper()]
    return [
        log_count(said),
        flag(len(said) > _LONG_ANSWER),
        len(capitals) / max(len(plain), 1),
        flag(_YEAR.search(answer)),
        flag(_DIGIT.search(answer)),
        flag(_YES_NO.match(answer)),
        flag(len(answer) > 2 and answer.lower() in asked.lower()),
        share(known & set(said), said),
        math.log1p(max(map(len, said), default=0)),
    ]


def _agreement(kinds: Sequence[float], answer: Sequence[float]) -> list[float]:
    """Return whether the answer is of the kind that the question asks for."""
    who, when, where, count, yes_no = kinds
    _, _, capitals, year, digit, says_yes_no, *_ = answer
    return [
        when * (1 - digit),
        who * digit,
        count * (1 - digit),
        where * digit,
        yes_no * (1 - says_yes_no),
        who * capitals,
        when * year,
        where * capitals,
        count * digit,
    ]


def _of_reasoning(asked: str, draft: Draft, concludes: float) -> list[float]:
    text = draft.reasoning
    said, plain = words(text), _PLAIN.findall(text)
    lowered = text.lower()
    return [
        log_count([one for one in _SENTENCE.split(text) if one]),
        log_count(said),
        len(content_words(said, set(words(asked)))) / max(len(said), 1),
        len(set(said)) / max(len(said), 1),
        flag(draft.answer and draft.answer.lower() in lowered),
        concludes,
        flag(_HEDGE.search(f"{lowered} {draft.answer.lower()}")),
        flag(_NO_ANSWER.search(draft.answer.lower())),
        log_count(_DIGIT.findall(text)),
        sum(word[:1].isupper() for word in plain) / max(len(plain), 1),
    ]


Found = Mapping[str, Sequence[Document]]
"""By query, its documents, best first, with `metadata["score"]` where the retriever has one."""

LOOK_K = 15
"""Passages of the first look."""
_FEW = 5

_FOUND = (
    *("found", "score", "gap", "gap_to_fifth", "first_holds", "five_hold", "any_holds"),
    *("holding", "reciprocal_rank", "first_words", "five_words", "question_covered"),
    *("reasoning_first", "reasoning_five", "title"),
)
_AGAIN = ("gain", "first_holds", "any_holds")
_POPULAR = ("answer", "answer_titles", "names", "names_titles")
LOOK_NAMES: tuple[str, ...] = (
    *(f"look.{name}" for name in _FOUND),
    *(f"look_with_answer.{name}" for name in _AGAIN),
    *(f"popularity.{name}" for name in _POPULAR),
)
"""Names of `look_features`, in order."""


class _Queries(NamedTuple):
    question: str
    with_answer: str
    answer: str
    names: str


def _queries(question: str, said: Draft) -> _Queries:
    asked = question.strip()
    return _Queries(asked, f"{asked} {said.answer}".strip(), said.answer, _named(asked))


def look_queries(question: str, draft: str) -> dict[str, int]:
    """Return what the look searches for, and how many passages of each.

    The question, the question with the draft's answer, that answer, and the question's names: at
    most four searches, which are cheap where the index is a lexical one. A draft that is empty or
    a question without names takes fewer.

    Args:
        question: The question.
        draft: A model's answer without retrieval; may be empty.
    """
    asked = _queries(question, read_draft(draft))
    return {query: LOOK_K for query in dict.fromkeys(asked) if query.strip()}


def look_features(question: str, draft: str, found: Found) -> list[float]:
    """Return how a search agrees with a draft, in the order of `LOOK_NAMES`.

    Args:
        question: The question.
        draft: A model's answer without retrieval.
        found: What was found for each of `look_queries`; BM25 is meant.
    """
    said = read_draft(draft)
    asked = _queries(question, said)

    def hits_of(query: str, most: int) -> list[_Hit]:
        return [_Hit.of(one) for one in found.get(query, ())[:most]]

    hits, again = hits_of(asked.question, LOOK_K), hits_of(asked.with_answer, _FEW)
    return [
        *_of_look(question, said, hits),
        math.log1p(_score(again)) - math.log1p(_score(hits)),
        flag(again and again[0].holds(said.answer)),
        flag(any(one.holds(said.answer) for one in again)),
        *_popularity(said.answer, hits_of(asked.answer, LOOK_K)),
        *_popularity(asked.names, hits_of(asked.names, LOOK_K)),
    ]


class _Hit(NamedTuple):
    text: str
    """Title and text, normalised, between spaces."""
    title: str
    score: float
    terms: frozenset[str]

    @classmethod
    def of(cls, doc: Document) -> _Hit:
        title = str(doc.metadata.get("title") or "")
        plain = normalize_answer(f"{title} {doc.page_content}")
        score = doc.metadata.get("score")
        value = float(score) if isinstance(score, int | float) else 0.0
        return cls(f" {plain} ", normalize_answer(title), value, frozenset(plain.split()))

    def holds(self, text: str) -> bool:
        wanted = normalize_answer(text)
        return bool(wanted) and f" {wanted} " in self.text


def _score(hits: Sequence[_Hit], place: int = 0) -> float:
    return max(hits[place].score, 0.0) if len(hits) > place else 0.0


def _of_look(question: str, said: Draft, hits: Sequence[_Hit]) -> list[float]:
    holding = [one.holds(said.answer) for one in hits]
    first = _score(hits)
    asked = set(content_words(words(question)))
    answer = set(normalize_answer(said.answer).split())
    reasoned = set(content_words(words(said.reasoning), asked))
    covers = [
        [len(wanted & one.terms) / max(len(wanted), 1) for one in hits[:_FEW]] or [0.0]
        for wanted in (answer, asked, reasoned)
    ]
    rank = holding.index(True) + 1 if any(holding) else 0
    return [
        log_count(hits),
        math.log1p(first),
        (first - _score(hits, 1)) / (1 + first),
        (first - _score(hits, _FEW - 1)) / (1 + first),
        flag(any(holding[:1])),
        flag(any(holding[:_FEW])),
        flag(any(holding)),
        math.log1p(sum(holding)),
        1 / rank if rank else 0.0,
        covers[0][0],
        max(covers[0]),
        covers[1][0],
        covers[2][0],
        max(covers[2]),
        flag(any(one.title == normalize_answer(said.answer) for one in hits)),
    ]


def _named(question: str) -> str:
    return " ".join(word for word in question.split()[1:] if word[:1].isupper())


def _popularity(name: str, hits: Sequence[_Hit]) -> list[float]:
    """Return how many of the passages found by a name hold it, and have it in their title."""
    wanted = normalize_answer(name)
    if not wanted:
        return [0.0, 0.0]
    return [
        math.log1p(sum(one.holds(name) for one in hits)),
        math.log1p(sum(wanted in one.title for one in hits)),
    ]
