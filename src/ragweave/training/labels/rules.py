"""The annotation rules of SlimPLM's Table 8, checked on a teacher's reply.

The limits are ours, set so that of the authors' own GPT-4 annotations (1,006 claims) next to none
breaks them: their longest claim has 32 words, and of every claim more than half of the words that
carry meaning stand in the draft or the question.

SlimPLM's released rewriter annotations, GPT-4's claims and sub-questions for a draft, are read here
too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ragweave.tools.claims import RELEASED, ClaimQuery, QuestionQuery, Rewrite
from ragweave.tools.text.normalize import normalize_answer, words
from ragweave.tools.text.unknown import is_unknown

MAX_CLAIM_WORDS = 40
"""Words of a claim that is still brief."""

MIN_SUPPORT = 0.5
"""Share of a claim's words of meaning that must stand in the draft or the question."""

_PRONOUN_WORDS = "he she it they this that these those his her hers its their theirs him them"
_PRONOUNS = frozenset(_PRONOUN_WORDS.split())
_EMPTY_OFTEN = frozenset({"it", "its", "this", "that", "these", "those"})
_OTHER_WORDS = """
a an the of in on at to for and or but so is are was were be been being by with from as into has
have had do does did not no nor than then there here also however therefore when while who whom
whose which what where why how will would can could should may might must shall if because about
after before during over under i we you my our your
"""
_FUNCTION_WORDS = frozenset(_OTHER_WORDS.split())
_EXPLETIVE = re.compile(
    r"it(?:['’]s| is| was| seems| takes| took| rains)? (?:also |often |not |generally |usually )?"
    r"(?:likely|unlikely|possible|impossible|important|essential|necessary|eas(?:y|ier)|hard(?:er)?"
    r"|difficult|true|believed|said|thought|known|estimated|recommended|advisable|worth|unclear"
    r"|clear|common|better|best|illegal|legal|safe|(?<=takes )\w+|(?<=took )\w+)\b",
    re.IGNORECASE,
)
"""An "it" that stands for no name: "it is likely that …", "it takes two hours to …"."""


class BrokenRule(NamedTuple):
    """A rule that a reply breaks."""

    kind: str
    """In a few words, the same for all of this kind."""
    text: str
    """What to tell the teacher."""
    hard: bool = True
    """Whether a record (or reply) that keeps it is left out; else it is only asked about."""


def reply_violations(read: Rewrite, draft: str, *, cut: bool) -> list[BrokenRule]:
    """Return what is wrong with a reply as a whole.

    Args:
        read: The reply, read.
        draft: The draft that it splits.
        cut: Whether the model's length limit ended it.
    """
    if not read.parsed:
        return [
            BrokenRule("unreadable reply", "- nothing in it is in the format that was asked for")
        ]
    errors = []
    if cut or read.truncated:
        errors.append(BrokenRule("reply breaks off", "- it breaks off before its end: be brief"))
    if not read.claims and draft.strip() and not is_unknown(draft):
        errors.append(
            BrokenRule("no claims", "- the draft makes claims, and none is listed", hard=False)
        )
    return errors


def record_violations(
    one: ClaimQuery | QuestionQuery, question: str, draft: str
) -> Iterator[BrokenRule]:
    """Yield what is wrong with one claim or question.

    Args:
        one: The record.
        question: The user's question.
        draft: The draft.
    """
    is_claim = isinstance(one, ClaimQuery)
    text = one.claim if isinstance(one, ClaimQuery) else one.question
    shown = f"- {'claim' if is_claim else 'question'} {text!r}"
    pronoun = leading_pronoun(text, asked=not is_claim)
    if pronoun:
        yield BrokenRule("pronoun", f"{shown} begins with {pronoun!r}: put the name in its place")
    yield from _query_violations(one, text, question, shown)
    if not is_claim:
        return
    if len(text.split()) > MAX_CLAIM_WORDS:
        yield BrokenRule("long claim", f"{shown} is too long: split it, one statement a claim")
    if support(text, f"{draft} {question}") < MIN_SUPPORT:
        yield BrokenRule("not in the draft", f"{shown} says what the draft does not say")


def _query_violations(
    one: ClaimQuery | QuestionQuery, text: str, question: str, shown: str
) -> Iterator[BrokenRule]:
    """Yield what is wrong with a record's query, where it is searched for."""
    if not one.need_search:
        return
    if support(one.query, f"{text} {question}") == 0.0:
        yield BrokenRule(
            "query off topic", f"{shown} has a query about something else: {one.query!r}"
        )
    elif isinstance(one, ClaimQuery) and normalize_answer(one.query) == normalize_answer(text):
        yield BrokenRule("no query", f"{shown} has no search query of its own", hard=False)


def leading_pronoun(text: str, *, asked: bool = False) -> str | None:
    """Return the pronoun that stands before any name or noun of a text, if one does.

    "It is likely that …" and the like are no pronouns that hide a name.

    Args:
        text: A claim or question.
        asked: Whether it is a question, which begins with words such as "when was"; there only
            words for people count, since "it" and "that" are often empty ("is it true that").
    """
    if not asked and _EXPLETIVE.match(text):
        return None
    for word in words(text):
        if word in _PRONOUNS:
            return None if asked and word in _EMPTY_OFTEN else word
        if word not in _FUNCTION_WORDS:
            return None
    return None


def support(text: str, basis: str) -> float:
    """Return the share of a text's words of meaning that stand in `basis`, in [0, 1].

    Scripts without spaces are compared by pairs of characters. A text without such words has 1.0.
    """
    wanted = list(_units(text))
    there = set(_units(basis))
    return sum(one in there for one in wanted) / len(wanted) if wanted else 1.0


def _units(text: str) -> Iterable[str]:
    for word in words(text):
        if any(ord(char) > 0x2E80 for char in word):
            yield from (word[index : index + 2] for index in range(max(1, len(word) - 1)))
        elif word not in _FUNCTION_WORDS and word not in _PRONOUNS:
            yield word.removesuffix("'s").removesuffix("’s")


_CLAIMS = "_claims"


def is_annotated(fields: Mapping[str, Any]) -> bool:
    """Tell whether a row brings its claims and sub-questions."""
    return _claims_field(fields) is not None and isinstance(fields.get("questions"), list)


def draft_field(fields: Mapping[str, Any]) -> str | None:
    """Return the name of the row's draft: the field that its claims were split from."""
    claims = _claims_field(fields) or ""
    drafts = [str(name) for name in fields if str(name).endswith(RELEASED)]
    return next((one for one in drafts if claims.startswith(one.removesuffix("answer"))), None)


def annotation(fields: Mapping[str, Any]) -> Rewrite:
    """Return a row's annotation as a rewriter's reply says it.

    A record without a query has its own text for one, unless it needs no search.
    """
    claims = [
        ClaimQuery(*_record(one, "claim", "query"))
        for one in _objects(fields[_claims_field(fields) or ""])
    ]
    questions = [
        QuestionQuery(*_record(one, "question", "searchWord"))
        for one in _objects(fields["questions"])
    ]
    return Rewrite(
        [one for one in questions if one.question],
        [one for one in claims if one.claim],
        parsed=True,
    )


def _claims_field(fields: Mapping[str, Any]) -> str | None:
    for name, value in fields.items():
        if str(name).endswith(_CLAIMS) and isinstance(value, list):
            return str(name)
    return None


def _objects(value: Any) -> Sequence[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)]


def _record(one: Mapping[str, Any], text: str, query: str) -> tuple[str, bool, str]:
    said = " ".join(str(one.get(text) or "").split())
    searched = one.get("needSearch") is not False
    return said, searched, " ".join(str(one.get(query) or said).split()) if searched else ""
