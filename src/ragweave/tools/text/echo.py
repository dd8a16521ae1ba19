"""Is what a model said only an echo of its prompt?

Small models copy: a passage's delimiter (`<passage 6 title="…">`), the question, a placeholder of
the asked-for format ("its query"), or what one of the prompt's examples answers. None of these is
an answer, a query or a claim, however well it can be read.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from ragweave.tools.text.normalize import normalize_answer


class Examples(NamedTuple):
    """What a prompt's examples say."""

    questions: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()


class PromptParts(NamedTuple):
    """The parts of a prompt that a reply may copy."""

    question: str = ""
    examples: Examples = Examples()
    observed: str = ""
    """Text that may support an answer: the passages, or what was found so far."""


NO_PARTS = PromptParts()
"""Of a prompt nothing is known."""

EchoKind = Literal["", "delimiter", "question", "placeholder", "example"]

_LONGEST = 2000
"""Characters of a text that may be an echo; what is longer says something of its own."""
_DELIMITER = re.compile(
    r"[\W_]{0,9}(?:passage|knowledge|sentence|document)s? ?\d{1,4}(?: title ?=.*)?[\W_]{0,9}"
    r"|\W{0,9}< ?/? ?(?:passage|knowledge|question|answer|context|candidate)s?\b[^>]*>?\W{0,9}",
    re.IGNORECASE,
)
_MARKED_QUESTION = re.compile(r"[\W_]{0,9}(?:question|q)[*_ ]{0,4}[:：]", re.IGNORECASE)
_PLACEHOLDER = re.compile(
    r"(?:(?:its|the|a|an|your|my|first|second|third|next|some|final|short|insert|write|give)[ ]){0,3}"
    r"(?:answer|query|claim|sub-?question|search (?:query|text)|text)(?:[ ](?:here|text))?"
    r"|a (?:name|date|number|phrase)|the first question"
    r"|a name,? a date,? a number,? or a phrase",
    re.IGNORECASE,
)
_EDGES = " \t\r\n.,:;!?…*_`\"'“”‘’()[]{}<>-"
_YES_NO = frozenset({"yes", "no", "true", "false"})
_POLAR = re.compile(
    r"(?:^|[,;:] )(?:is|are|was|were|am|do|does|did|can|could|will|would|has|have|had|should|may"
    r"|might|must)\b",
    re.IGNORECASE,
)


def is_echo(said: str, parts: PromptParts = NO_PARTS) -> bool:
    """Tell whether an answer, a query or a claim is an echo of the prompt; see `echo_of`."""
    return bool(echo_of(said, parts))


def echo_of(said: str, parts: PromptParts = NO_PARTS) -> EchoKind:
    """Return what of the prompt `said` is an echo of, or "".

    * `delimiter`: the mark around a passage, with or without its title, or its number.
    * `placeholder`: "its query", "the answer", `[your answer here]`.
    * `question`: the question itself, word for word.
    * `example`: what an example of the prompt answers, asks or searches, word for word, where
      neither the question nor anything observed holds it. Yes and No count only where the
      question does not ask for them.

    Args:
        said: What was read off a reply.
        parts: What the prompt said.
    """
    text = " ".join(said[: _LONGEST + 1].split())
    if not text or len(text) > _LONGEST:
        return ""
    if _DELIMITER.fullmatch(text):
        return "delimiter"
    if _PLACEHOLDER.fullmatch(text.strip(_EDGES)):
        return "placeholder"
    plain = normalize_answer(_MARKED_QUESTION.sub("", text, count=1))
    if not plain:
        return ""
    asked = normalize_answer(parts.question[:_LONGEST])
    if plain == asked:
        return "question"
    return "example" if _of_example(plain, asked, parts) else ""


def examples_in(
    text: str, *, questions: str = "", answers: str = "", queries: str = ""
) -> Examples:
    """Return what a prompt's examples say, found by patterns with one group each."""
    found = (tuple(re.findall(one, text)) if one else () for one in (questions, answers, queries))
    return Examples(*found)


def _of_example(plain: str, asked: str, parts: PromptParts) -> bool:
    """Is a normalised text an example's, and supported by nothing else?"""
    examples = parts.examples
    if plain not in {normalize_answer(one) for group in examples for one in group}:
        return False
    if asked in {normalize_answer(one) for one in examples.questions}:
        return False
    if plain in _YES_NO:
        return not _POLAR.search(parts.question)
    seen = normalize_answer(f"{parts.question}\n{parts.observed}")
    return f" {plain} " not in f" {seen} "
