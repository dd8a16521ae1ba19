"""Reading a reply of the Self-Ask chain: a follow-up question, or the final answer.

Models go on after their follow-up and make up its answer; only the first thing said counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ragweave.nodes.replies import bare_text, parse_answer
from ragweave.state import AnswerType

_COLON = r"[*_ \t]*[:：][*_]*"
_FOLLOW_UP = rf"\bfollow[- ]?ups?(?: questions?)?(?: ?#?\d+)?{_COLON}"
_FINAL = rf"\b(?:(?:so|therefore),? )?(?:the |my )?final answer(?: is\b(?:{_COLON})?|{_COLON})"
_MARK = re.compile(rf"(?P<follow_up>{_FOLLOW_UP})|(?P<final>{_FINAL})", re.IGNORECASE)
_OTHERS = re.compile(
    rf"{_FOLLOW_UP}|{_FINAL}|\bintermediate answer{_COLON}|^[*_ ]*question{_COLON}"
    rf"|\bare follow[- ]?up questions needed",
    re.IGNORECASE | re.MULTILINE,
)
_NEEDED = re.compile(
    rf"\W*(?:are follow[- ]?up questions needed(?: here)?{_COLON})?\W*(?P<said>yes|no)\b[.,;:!*_]*",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"\W*(?:none|no|n/a|nothing|not needed)?\W*", re.IGNORECASE)
_EDGES = " \t\r\n*_`\"'“”"


@dataclass(frozen=True)
class SelfAskReply:
    """What a reply of the chain says."""

    kind: Literal["follow_up", "final", "unreadable"]
    text: str
    """The follow-up question, or the answer as parsed; "" where nothing could be read."""


def parse_self_ask(reply: str, answer_type: AnswerType, *, first: bool) -> SelfAskReply:
    """Read the next step off a reply.

    "Follow up: …" or "So the final answer is: …", whichever comes first. Without either, a bare
    question is a follow-up and other prose is the final answer, as Self-Ask answers directly where
    it needs nothing. A reply without a word is unreadable.

    Args:
        reply: The model's reply, of any text.
        answer_type: The kind of answer asked for.
        first: Whether the reply completes "Are follow up questions needed here:", so that a
            leading Yes or No answers that and not the question.
    """
    text = bare_text(reply)
    for mark in _MARK.finditer(text):
        if mark.lastgroup == "final":
            return SelfAskReply("final", final_answer(text[mark.start() :], answer_type))
        question = _line(text[mark.end() :])
        if not _NOTHING.fullmatch(question):
            return SelfAskReply("follow_up", question)
    return _unmarked(text, answer_type, first=first)


def final_answer(reply: str, answer_type: AnswerType) -> str:
    """Read a reply that can only be the final answer, or Unknown; what else it starts is cut."""
    text = bare_text(reply)
    mark = re.search(_FINAL, text, re.IGNORECASE)
    answer = text[mark.end() :] if mark else text
    return parse_answer(_before_others(answer), answer_type)


def _unmarked(text: str, answer_type: AnswerType, *, first: bool) -> SelfAskReply:
    needed = _NEEDED.match(text) if first else None
    rest = text[needed.end() :] if needed else text
    says_no = needed is not None and needed["said"].lower() == "no"
    line = _line(rest)
    if not line:
        return SelfAskReply("unreadable", "")
    if line.endswith(("?", "？")) and not says_no:
        return SelfAskReply("follow_up", line)
    return SelfAskReply("final", parse_answer(_before_others(rest), answer_type))


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
