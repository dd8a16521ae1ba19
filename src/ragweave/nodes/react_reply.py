"""Reading a ReAct reply: a thought and one action.

Models go on and make up observations; what stands behind the first action does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ragweave.nodes.replies import bare_text, parse_answer
from ragweave.state import AnswerType
from ragweave.tools.text.unknown import UNKNOWN

_LABELLED = (
    r"(?:^|\n)[^\w\n]*action[ \t]*#?\d*[*_ \t]*[:：][*_`\" \t]*(?P<labelled>search|finish)\b"
)
_BARE = r"\b(?P<bare>search|finish)(?=[*_`]*[ \t]*\[)"
_ACTION = re.compile(rf"{_LABELLED}|{_BARE}", re.IGNORECASE)
_INPUT = re.compile(
    r"[*_`\" \t]*(?:[:：]|\n\W*(?:action )?input[ \t]*\d*[*_ \t]*[:：])?[*_`\" \t]*", re.IGNORECASE
)
_OBSERVATION = re.compile(r"^\W*observation[ \t]*#?\d*[*_ \t]*[:：]", re.IGNORECASE | re.MULTILINE)
_THOUGHT = re.compile(r"^\W*thought[ \t]*#?\d*[*_ \t]*[:：][*_ \t]*", re.IGNORECASE)
_CONCLUDES = re.compile(
    r"\bfinal answer\b\W{0,4}(?:is\b|[:：])|\b(?:so|therefore|thus|hence),? the answer is\b"
    r"|^(?:\W*thought[ \t]*\d*[*_ \t]*[:：])?\W*(?:the )?answer(?: is\b|[*_ \t]*[:：])",
    re.IGNORECASE | re.MULTILINE,
)
_CLOSES = {"[": "]", "(": ")"}
_EDGES = " \t\r\n*_`\"'“”"


@dataclass(frozen=True)
class ReactReply:
    """What a reply says."""

    thought: str
    """The reasoning before the action, without its label."""
    action: Literal["search", "finish", "none"]
    argument: str
    """What to search for, or the answer as parsed; "" where no action could be read."""


def parse_react(reply: str, answer_type: AnswerType) -> ReactReply:
    """Read the thought and the first action off a reply.

    `Search[…]` and `Finish[…]`, also with round brackets, a colon or an "Action Input" line behind
    "Action:", and without a closing bracket. A reply without an action that says "So the answer
    is …" finishes; any other is no action.
    """
    text = _own(reply)
    actions = list(_ACTION.finditer(text))
    thought = _unlabelled(text[: actions[0].start()] if actions else text)
    for found in actions:
        name = (found["labelled"] or found["bare"]).lower()
        argument = _argument(text[found.end() :])
        if name == "finish":
            return ReactReply(thought, "finish", parse_answer(argument, answer_type))
        if re.search(r"\w", argument):
            return ReactReply(thought, "search", " ".join(argument.split()))
    if _CONCLUDES.search(text):
        return ReactReply(thought, "finish", parse_answer(text, answer_type))
    return ReactReply(thought, "none", "")


def last_answer(reply: str, answer_type: AnswerType) -> str:
    """Read a reply that had to finish: its first Finish, else the prose of one without actions."""
    text = _own(reply)
    actions = list(_ACTION.finditer(text))
    for found in actions:
        if (found["labelled"] or found["bare"]).lower() == "finish":
            return parse_answer(_argument(text[found.end() :]), answer_type)
    return UNKNOWN if actions else parse_answer(_unlabelled(text), answer_type)


def _own(reply: str) -> str:
    """Return what the model may say: the reply up to the first observation that it made up."""
    text = bare_text(reply)
    made_up = _OBSERVATION.search(text)
    return text[: made_up.start()] if made_up else text


def _unlabelled(text: str) -> str:
    return _THOUGHT.sub("", text).strip()


def _argument(text: str) -> str:
    """Return what stands in the brackets at the start of `text`, else the rest of the line."""
    rest = text[_INPUT.match(text).end() :]  # type: ignore[union-attr]
    close = _CLOSES.get(rest[:1])
    if close is None:
        return _first_line(rest)
    depth = 0
    for at, char in enumerate(rest):
        depth += (char == rest[0]) - (char == close)
        if depth == 0:
            return rest[1:at].strip(_EDGES)
    return _first_line(rest[1:])


def _first_line(text: str) -> str:
    return text.partition("\n")[0].strip(_EDGES)
