"""Tags by which a model asks for searches in its own turn, which then continues with the results."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from ragweave.nodes.loop import Step
from ragweave.nodes.prompts import Reply


class Tags(NamedTuple):
    """The marks around an action."""

    begin: str
    end: str


class Tagged(NamedTuple):
    """A reply up to the end of its first action, the action's marks, and what stands between them."""

    text: str
    tags: Tags | None
    action: str


def first_action(reply: Reply[Any], tags: Sequence[Tags], *, opened: str = "") -> Tagged:
    """Return the first action of a reply's raw text, thoughts included.

    `opened` is the end of the prompt, which the reply continues.
    A server omits the tag that it stopped at, so the last tag may not be closed.
    """
    raw = str(reply.message.text) if reply.message else ""
    text = raw if not raw.strip() or raw.lstrip().startswith(opened) else opened + raw
    ends = [(at, pair) for pair in tags if (at := text.find(pair.end)) >= 0]
    at, ended = min(ends, default=(len(text), None))
    turn = text[:at]
    last = ended or max(tags, key=lambda pair: turn.rfind(pair.begin))
    start = turn.rfind(last.begin)
    if start < 0:
        return Tagged(turn, None, "")
    return Tagged(turn + last.end, last, turn[start + len(last.begin) :].strip())


def boxed(text: str) -> str:
    r"""Return what the last `\boxed{…}` of a text holds; "" without one."""
    boxes = re.findall(r"\\boxed\{(?:\\\w+\{)?([^{}]*)", text)
    return str(boxes[-1]).strip() if boxes else ""


def transcript(steps: Sequence[Step], result_of: Callable[[Step], str], end: str = "") -> list[BaseMessage]:
    """Return the messages of steps: what the model wrote, and after it what it was shown; `end` ends the last one."""
    if not steps:
        return [HumanMessage(end)] if end else []
    results = [result_of(step) for step in steps]
    results[-1] += end
    pairs = zip(steps, results, strict=True)
    return [message for step, result in pairs for message in (AIMessage(step["text"] or "…"), HumanMessage(result))]
