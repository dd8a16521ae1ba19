"""Reading a reply of the Self-Ask chain: a follow-up question, or the final answer.

Models go on after their follow-up and make up its answer; only the first thing said counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ragweave.nodes.replies import ReadAnswer, Rejected, bare_text, read_answer
from ragweave.state import AnswerType
from ragweave.tools.text.echo import NO_PARTS, PromptParts, is_echo

# What may repeat is possessive: no reply can make these patterns try many ways to read it.
_COLON = r"[*_ \t]*+[:：][*_]*+"
_FOLLOW_UP = rf"\bfollow[- ]?ups?(?: questions?)?(?: ?#?\d+)?{_COLON}"
_FINAL = rf"\b(?:(?:so|therefore),? )?(?:the |my )?final answer(?: is\b(?:{_COLON})?|{_COLON})"
_MARK = re.compile(rf"(?P<follow_up>{_FOLLOW_UP})|(?P<final>{_FINAL})", re.IGNORECASE)
_OTHERS = re.compile(
    rf"{_FOLLOW_UP}|{_FINAL}|\bintermediate answer{_COLON}|^[*_ ]*+question{_COLON}"
    rf"|\bare follow[- ]?up questions needed",
    re.IGNORECASE | re.MULTILINE,
)
_NEEDED = re.compile(
    rf"\W*+(?:are follow[- ]?up questions needed(?: here)?{_COLON}\W*+)?(?P<said>yes|no)\b[.,;:!*_]*+",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"\W*+(?:none|nothing|not needed|n/a|no)?\W*+", re.IGNORECASE)
_TRIES = 20
"""Marks that are looked at for one with a text."""
_EDGES = " \t\r\n*_`\"'“”"


@dataclass(frozen=True)
class SelfAskReply:
    """What a reply of the chain says."""

    kind: Literal["follow_up", "final", "unreadable"]
    text: str
    """The follow-up question, or the answer as parsed; "" where nothing could be read."""
    rejected: Rejected = ""
    """Why an answer that stands there is none; `text` is then Unknown."""


def parse_self_ask(
    reply: str, answer_type: AnswerType, parts: PromptParts = NO_PARTS, *, first: bool
) -> SelfAskReply:
    """Read the next step off a reply.

    "Follow up: …" or "So the final answer is: …", whichever comes first. Without either, a bare
    question is a follow-up and other prose is the final answer, as Self-Ask answers directly where
    it needs nothing. A reply without a word is unreadable. A follow-up of the prompt's examples is
    none, and an answer that is an echo of the prompt is Unknown and `rejected`.

    Args:
        reply: The model's reply, of any text.
        answer_type: The kind of answer asked for.
        parts: What the prompt said: an echo of it is no step.
        first: Whether the reply completes "Are follow up questions needed here:", so that a
            leading Yes or No answers that and not the question.
    """
    text = bare_text(reply)
    for mark in islice(_MARK.finditer(text), _TRIES):
        if mark.lastgroup == "final":
            return _final(read_final(text[mark.start() :], answer_type, parts))
        question = _line(text[mark.end() :])
        if not _NOTHING.fullmatch(question) and not _copied(question, parts):
            return SelfAskReply("follow_up", question)
    return _unmarked(text, answer_type, parts, first=first)


def final_answer(reply: str, answer_type: AnswerType) -> str:
    """Read a reply that can only be the final answer, or Unknown; what else it starts is cut."""
    return read_final(reply, answer_type).answer


def read_final(reply: str, answer_type: AnswerType, parts: PromptParts = NO_PARTS) -> ReadAnswer:
    """Read the final answer as `final_answer` does; or Unknown, and why, where it is an echo."""
    text = bare_text(reply)
    mark = re.search(_FINAL, text, re.IGNORECASE)
    answer = text[mark.end() :] if mark else text
    return read_answer(_before_others(answer), answer_type, parts)


def _final(read: ReadAnswer) -> SelfAskReply:
    return SelfAskReply("final", read.answer, read.rejected)


def _copied(question: str, parts: PromptParts) -> bool:
    """Is a follow-up one of the examples', or a placeholder? The question itself may be asked."""
    return is_echo(question, parts._replace(question=""))


def _unmarked(
    text: str, answer_type: AnswerType, parts: PromptParts, *, first: bool
) -> SelfAskReply:
    needed = _NEEDED.match(text) if first else None
    rest = text[needed.end() :] if needed else text
    says_no = needed is not None and needed["said"].lower() == "no"
    line = _line(rest)
    if not line or (line.endswith(("?", "？")) and _copied(line, parts)):
        return SelfAskReply("unreadable", "")
    if line.endswith(("?", "？")) and not says_no:
        return SelfAskReply("follow_up", line)
    return _final(read_answer(_before_others(rest), answer_type, parts))


def _line(text: str) -> str:
    """Return the first line that says anything, up to the next mark."""
    for line in _before_others(text).splitlines():
        bare = line.strip(_EDGES)
        if re.search(r"\w", bare):
            return bare
    return ""


def _before_others(text: str) -> str:
    other = _OTHERS.search(text)
    return text[: other.start()] if other else text
