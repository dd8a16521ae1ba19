"""Reading a ReAct reply: a thought and one action.

Models go on and make up observations; what stands behind the first action does not count.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from ragweave.nodes.replies import ReadAnswer, Rejected, bare_text, parse_answer, read_answer
from ragweave.state import AnswerType
from ragweave.tools.text.markup import stripped
from ragweave.tools.text.normalize import words
from ragweave.tools.text.reply import NO_PARTS, PromptParts, is_echo
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

# What may repeat is possessive and stays on its line: no reply can make these patterns try many
# ways to read it.
_LABELLED = r"^[^\w\n]*+action[ \t]*+#?\d*+[*_ \t]*+[:：][*_`\" \t]*+(?P<labelled>search|finish)\b"
_BARE = r"\b(?P<bare>search|finish)(?=[*_`]{0,3}[ \t]{0,9}\[)"
_ACTION = re.compile(rf"{_LABELLED}|{_BARE}", re.IGNORECASE | re.MULTILINE)
_LINE = re.compile(
    r"^[^\w\n]*+(?P<labelled>search|finish)[*_`]{0,3}+"
    r"(?=(?P<bare>\([^\n]{1,400}\)[\s\W]*$|[ \t]?[:：][*_` \t]*+\w))",
    re.IGNORECASE | re.MULTILINE,
)
"""An action without its label and brackets: "Finish: Paris", "Search(the light)"."""
_NO_ARGUMENT = re.compile(
    r"\W*(?:(?:none|nothing|n/a|done|again|no|not|query|answer|text)\b[^\n]{0,80})?\W*",
    re.IGNORECASE,
)
_KEYWORD = re.compile(r"(?:answer|query|text|argument|input|action_input) ?= ?", re.IGNORECASE)
_TEXT = r"\"(?:[^\"\\]|\\.)*+\""
_IN_JSON = re.compile(
    rf"(?:\{{\s*+)?+(?:\"thought\"\s*+:\s*+(?P<thought>{_TEXT})\s*+,\s*+)?\"action\"\s*+:\s*+"
    rf"\"(?P<name>search|finish)\"\s*+,\s*+\"(?:action_input|input|query|answer)\"\s*+:\s*+(?P<text>{_TEXT})",
    re.IGNORECASE,
)
"""An action as agents with tools write it."""
_BELOW = re.compile(
    r"\A[*_`\":： \t]*+(?:\n[^\w\n\[(]*+)+(?:(?:(?:final )?answer|(?:action )?input)[*_ \t]*+[:：])?"
    r"(?!\s*(?:action|input|(?:final )?thought|question|note|search|done|end|i am done|i have|(?:the )?task)\b)",
    re.IGNORECASE,
)
"""What stands between "Finish" and an answer on a line of its own."""
_INPUT = re.compile(
    r"[*_`\" \t]*+(?:[:：]|\n[^\w\n]*+(?:action )?input[ \t]*+\d*+[*_ \t]*+[:：])?+[*_`\" \t]*+",
    re.IGNORECASE,
)
_OBSERVATION = re.compile(
    r"^[^\w\n]*+observation[ \t]*+#?\d*+[*_ \t]*+[:：]", re.IGNORECASE | re.MULTILINE
)
_THOUGHT = re.compile(r"\W*+thought[ \t]*+#?\d*+[*_ \t]*+[:：][*_ \t]*+", re.IGNORECASE)
_CONCLUDES = re.compile(
    r"\bfinal answer\b\W{0,4}(?:is\b|[:：])|\b(?:so|therefore|thus|hence),? the answer is\b"
    r"|^(?:[^\w\n]*+thought[ \t]*+\d*+[*_ \t]*+[:：])?+[^\w\n]*+(?:the )?answer(?: is\b|[*_ \t]*+[:：])",
    re.IGNORECASE | re.MULTILINE,
)
_INSTRUCTED = re.compile(
    r"no action was read|no search is left|if the answer cannot be found|\btwo actions?\b"
    r"|\bactions? is one of\b|\bwas searched before\b",
    re.IGNORECASE,
)
"""How our own instructions speak of actions."""
_PLANS = re.compile(
    r"\?|\b(?:i|we|let me|let us|let's|need|needs|must|should|next|start|search\w*|look\w*|find"
    r"|passages?|observations?|thought|question)\b",
    re.IGNORECASE,
)
"""Words of a thought that plans, or speaks of what was read; a plain statement has none."""
_IS = re.compile(r"\b(?:is|are|was|were)\b", re.IGNORECASE)
_SMALL = frozenset(
    words(
        "a an the of in on at for to by with from and or is are was were be been "
        "do does did has have had which what who whom whose when where why how that this it its as"
    )
)
_STATEMENT = 40
"""Words of a thought that may be read as the answer; longer ones reason."""
_TRIES = 20
"""Actions that are looked at for one with an argument."""
_ARGUMENT = 2000
"""Characters of an argument that are read."""
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
    rejected: Rejected = ""
    """Why an answer that stands there is none."""


def parse_react(
    reply: str,
    answer_type: AnswerType,
    parts: PromptParts = NO_PARTS,
    *,
    observed: bool = False,
) -> ReactReply:
    """Read the thought and the first action off a reply.

    `Search[…]` and `Finish[…]`, also with round brackets, a colon or an "Action Input" line behind
    "Action:", without a closing bracket, as a JSON object with `action` and `action_input`, and as a
    line of its own ("Finish: Paris") where it is the reply's only action and nothing concludes. A reply without an action that says "So the answer
    is …" finishes, and so does one plain statement that answers the question in its own words
    ("The measure for fact verification is CXMI"), where something has been observed; any other is
    no action. Our own instructions, given back, are no action, and neither is a search for a
    placeholder or for what an example of the prompt searches. An answer that is an echo of the
    prompt is `rejected`, and no action.

    Args:
        reply: The model's reply, of any text; only its bounded part is read.
        answer_type: The kind of answer asked for.
        parts: What the prompt said: an echo of it is neither a search nor an answer.
        observed: Whether a search has been made, so that a statement can rest on it.
    """
    text = _own(reply)
    if not text.strip():
        return _behind_made_up(reply, parts)
    actions, copied = _actions(text), False
    thought = _unlabelled(text[: actions[0].start()] if actions else text)
    for found in actions:
        argument = _argument_of(text, found)
        if _name(found) == "finish":
            return _finish(thought, read_answer(argument, answer_type, parts))
        copied = is_echo(argument, parts._replace(question=""))
        if re.search(r"\w", argument) and not copied:
            return ReactReply(thought, "search", " ".join(argument.split()))
    if _CONCLUDES.search(text):
        return _finish(thought, read_answer(text, answer_type, parts))
    stated = _stated(thought, parts.question) if observed and not actions else ""
    if stated and not is_echo(stated, parts):
        return ReactReply(thought, "finish", parse_answer(stated, answer_type))
    return ReactReply("" if copied else thought, "none", "")


def _behind_made_up(reply: str, parts: PromptParts) -> ReactReply:
    """Read a reply that begins with an observation of its own: a search in it may be made.

    The thought behind it, and an answer, rest on what was made up.
    """
    text = _plain(reply)
    for found in _actions(text):
        argument = _argument_of(text, found)
        searches = _name(found) == "search" and re.search(r"\w", argument)
        if searches and not is_echo(argument, parts._replace(question="")):
            return ReactReply("", "search", " ".join(argument.split()))
    return ReactReply("", "none", "")


def last_answer(reply: str, answer_type: AnswerType) -> str:
    """Read a reply that had to finish: its first Finish, else the prose of one without actions."""
    return read_last(reply, answer_type).argument


def read_last(reply: str, answer_type: AnswerType, parts: PromptParts = NO_PARTS) -> ReactReply:
    """Read the last reply as `last_answer` does; or Unknown, and why, where it is an echo."""
    text = _own(reply)
    actions = _actions(text)
    said = next((one for one in actions if _name(one) == "finish"), None)
    if said is None and actions:
        return ReactReply("", "finish", UNKNOWN)
    prose = _unlabelled(text)
    stated = _stated(prose, parts.question) or prose
    answer = _argument_of(text, said) if said else stated
    read = read_answer(answer, answer_type, parts)
    return ReactReply("", "finish", read.answer, read.rejected)


def _finish(thought: str, read: ReadAnswer) -> ReactReply:
    """Finish with an answer; an echo of the prompt is none, and its thought is an example's."""
    if read.rejected:
        kept = "" if read.rejected == "example" else thought
        return ReactReply(kept, "none", "", read.rejected)
    return ReactReply(thought, "finish", read.answer)


def _actions(text: str) -> list[re.Match[str]]:
    """Return the first actions of a text, but for those that our own instructions name."""
    found = list(islice(_ACTION.finditer(text), _TRIES)) or _only_line(text)
    return [one for one in found if not _INSTRUCTED.search(_line_of(text, one))]


def _only_line(text: str) -> list[re.Match[str]]:
    """Return the action that a line of its own names, where it is the only one."""
    lines = list(islice(_LINE.finditer(text), _TRIES))
    if len(lines) != 1 or _CONCLUDES.search(text):
        return []
    return [] if _NO_ARGUMENT.fullmatch(_argument_of(text, lines[0])) else lines


def _line_of(text: str, found: re.Match[str]) -> str:
    """Return the line that a match begins in, up to the match's end."""
    begin = text.rfind("\n", 0, max(found.start(), found.start("bare"))) + 1
    return text[begin : found.end()][-_ARGUMENT:]


def _name(found: re.Match[str]) -> str:
    return str(found["labelled"] or found["bare"]).lower()


def _stated(thought: str, question: str) -> str:
    """Return what a thought answers that is one plain statement about the question, or "".

    It says the question's words again, at least half of them, and something more; where they all
    stand before "is", what stands behind it is the answer.
    """
    said, asked = words(thought), set(words(question)) - _SMALL
    content = set(said) - _SMALL
    if not asked or not 2 < len(said) <= _STATEMENT or "\n" in thought.strip():
        return ""
    if _PLANS.search(thought) or is_unknown(thought):
        return ""
    if 2 * len(asked & content) < len(asked) or not content - asked:
        return ""
    verb = _IS.search(thought)
    if verb and set(words(thought[: verb.start()])) - _SMALL <= asked:
        rest = thought[verb.end() :].strip()
        return rest if set(words(rest)) - asked - _SMALL else thought
    return thought


def _own(reply: str) -> str:
    """Return what the model may say: the reply up to the first observation that it made up."""
    text = _plain(reply)
    made_up = _OBSERVATION.search(text)
    return text[: made_up.start()] if made_up else text


def _plain(reply: str) -> str:
    """Return a reply's text, with an action in JSON as a line of its own."""

    def line(found: re.Match[str]) -> str:
        thought, argument = (_string(found[name]) for name in ("thought", "text"))
        return f"{thought}\nAction: {found['name']}[{argument}]\n"

    return _IN_JSON.sub(line, bare_text(reply))


def _string(literal: str | None) -> str:
    """Return what a JSON string says, as it stands where it is none; "" of nothing."""
    try:
        return str(json.loads(literal)) if literal else ""
    except ValueError:
        return str(literal).strip('"')


def _unlabelled(text: str) -> str:
    label = _THOUGHT.match(text)
    return text[label.end() if label else 0 :].strip()


def _argument_of(text: str, found: re.Match[str]) -> str:
    """Return the argument of an action; "Action: Finish" may have its answer below."""
    rest = text[found.end() :][:_ARGUMENT]
    return _argument(_BELOW.sub("", rest) if _name(found) == "finish" else rest)


def _argument(text: str) -> str:
    """Return what stands in the brackets at the start of `text`, else the rest of the line."""
    rest = text[_INPUT.match(text).end() :]  # type: ignore[union-attr]
    close = _CLOSES.get(rest[:1])
    if close is None:
        return _first_line(rest)
    depth = 0
    for index, char in enumerate(rest):
        depth += (char == rest[0]) - (char == close)
        if depth == 0:
            return stripped(_KEYWORD.sub("", rest[1:index].lstrip(), count=1), _EDGES)
    return _first_line(rest[1:])


def _first_line(text: str) -> str:
    return stripped(text.partition("\n")[0], _EDGES)
