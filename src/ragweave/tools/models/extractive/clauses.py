"""The part of a sentence that answers, where no short span does."""

from __future__ import annotations

import re

from ragweave.tools.models.extractive.evidence import Evidence
from ragweave.tools.models.extractive.question import Question
from ragweave.tools.models.extractive.words import stem, terms, tokens

_CLAUSE = re.compile(r"\s*(?:[;:—]|, (?:which|who|where|while|whereas|but|so)\b)\s*")
_PREDICATE = re.compile(
    r"\b(?:is|are|was|were|means|mean|refers to|stands for|consists of|denotes)\b\s+"
)
_REASON = re.compile(r"\b(?:because|due to|in order to|so that|by \w+ing)\b.*")
_OBJECT = re.compile(r"what (?:does|do|did) .* (?!mean\b|do\b)(\w+)\W*$")
_TURN = re.compile(r";|—|, (?:which|who|where|while|whereas|but|so)\b")
_CLOSING = " \t\n.,;:!?"


def clause(question: Question, evidence: Evidence) -> str:
    """Return the part of a sentence that says what the question lacks, or the whole sentence.

    A definition is the predicate behind "X is …", a reason what begins with "because" or the
    like; otherwise what follows the last of the question's words in the clause with most of them.
    """
    text = evidence.text.strip()
    if question.kind == "definition":
        return _definition(question, text)
    done = done_to(question, text)
    if done:
        return done
    parts = [part for part in _CLAUSE.split(text) if part]
    if not parts:
        return text
    best = max(parts, key=lambda part: len(question.terms & set(terms(part))))
    hits = [word for word in tokens(best) if stem(word.text) in question.terms]
    tail = best[hits[-1].end :].strip(" ,") if hits else best
    rest = re.sub(r"^(?:is|are|was|were|as|that|:)\s+", "", tail)
    return (rest if len(terms(rest)) >= 2 else best).strip(_CLOSING)


def done_to(question: Question, text: str) -> str:
    """Answer "What does X do?" by what follows the same verb in `text`; "" for other questions."""
    asked = _OBJECT.match(question.text.strip().lower())
    if asked is None:
        return ""
    verb = stem(asked[1])
    found = next((word for word in tokens(text) if stem(word.text) == verb), None)
    return _TURN.split(text[found.end :])[0].strip(_CLOSING) if found else ""


def _definition(question: Question, text: str) -> str:
    """Return the predicate of a defining sentence, or its reason, or the sentence."""
    reason = _REASON.search(text) if re.match(r"(?:why|how)\b", question.text.lower()) else None
    if reason is not None:
        return reason.group().strip(_CLOSING)
    found = _PREDICATE.search(text)
    if found and question.terms & set(terms(text[: found.start()])):
        return text[found.end() :].strip(_CLOSING)
    return text.strip(_CLOSING)
