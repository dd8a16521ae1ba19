"""What stands around an answer in a reply: an opening before it, further questions behind it."""

from __future__ import annotations

import re

from ragweave.nodes.conclusion import behind_marker
from ragweave.nodes.reply_lists import items_of
from ragweave.tools.text.markup import as_written
from ragweave.tools.text.normalize import normalize_answer

_TURN = re.compile(
    r"^[^\w\n]*(?:(?:question|q)(?: ?#?(?P<number>\d{1,2}))?|(?P<role>human|user))[*_ \t]*[:：]"
    r"(?P<asked>[^\n]*)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with another question: models trained on lists of them go on to the next one."""
_CONCLUDES = re.compile(r"\b(?:so|thus|hence|therefore),? (?:the|my) (?:\w+ )?answer is\b", re.I)
_PLEASANTRY = re.compile(
    r"\A\W*(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|(?:great|good) question|great"
    r"|i(?: would|['’]d| am|['’]m) (?:be )?(?:happy|glad) to [^.!\n]{1,40})"
    r"(?:[!.]+\s+|[!,. \t]*\n\s*)(?=\W{0,9}\w)",
    re.IGNORECASE,
)
_HERE = re.compile(
    r"\A\W*here(?: is|['’]s) (?:\w+ ){0,3}answer\b[^\n]{0,60}:[*_ ]*\n+(?=.*\w)", re.IGNORECASE
)
_ANNOUNCEMENT = re.compile(
    r"\A(?!\W*(?:yes|no|true|false)\b)[^\n]{1,300}:[^\w\n]*\n\s*(?=\W{0,9}\w)", re.IGNORECASE
)
"""A first line that only says that the answer follows: "Based on the passages:"."""
_SHORT = 4
"""Words of a text that is an answer, whatever follows."""
_FIRST_LINE = re.compile(r"\A[^\n]*\n\s*(?=\W{0,9}\w)")


def before_another_question(text: str, question: str, *, reasons: bool = False) -> str:
    """Cut what a reply goes on with behind its answer: another question, and its answer.

    "Steven Spielberg", then "Question: Who wrote Jaws?", then "Answer: Peter Benchley" answers
    with the first line. The question itself, told again, is none, and a reply that breaks it down
    is left whole: one that begins with another question or with a number 1, that concludes further
    on, or, where it was to reason, has concluded nothing before.

    Args:
        text: The reply, without a thinking block.
        question: What was asked; "" where that is not known.
        reasons: Whether the reply was to reason first.
    """
    asked = normalize_answer(question)
    for turn in _TURN.finditer(text):
        if normalize_answer(turn["asked"]) == asked:
            continue
        before = text[: turn.start()].rstrip()
        if not re.search(r"\w", before) or turn["number"] == "1":
            return text
        if turn["role"] and text[len(before) : turn.start()].count("\n") < 2:
            return text
        if behind_marker(before) is not None or len(before.split()) <= _SHORT:
            return before
        reasoned = reasons and "\n" in before.lstrip()
        return text if reasoned or _CONCLUDES.search(text, turn.end()) else before
    return text


def without_opening(said: str, question: str, *, reasons: bool = False) -> str:
    """Cut what a reply says before its answer: a pleasantry, the question, an announcement.

    Args:
        said: The reply, without a thinking block.
        question: What was asked; "" where that is not known.
        reasons: Whether the reply was to reason first: what it announces may then be a reasoning,
            unless one line follows.
    """
    said = _PLEASANTRY.sub("", said, count=1)
    said = _without_question(said, question)
    said = _HERE.sub("", said, count=1)
    announcement = _ANNOUNCEMENT.match(said)
    if announcement is None:
        return said
    rest = said[announcement.end() :]
    lines = [line for line in rest.splitlines() if line.strip()]
    is_list = len(items_of(lines)) > 1
    return said if is_list or (reasons and len(lines) > 1) else rest


def _without_question(said: str, question: str) -> str:
    first = _FIRST_LINE.match(said)
    if first is None or not question:
        return said
    turn = _TURN.match(first[0])
    told = normalize_answer(as_written(turn["asked"] if turn else first[0]))
    return said[first.end() :] if told == normalize_answer(question) else said
