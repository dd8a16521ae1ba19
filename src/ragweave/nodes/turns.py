"""Searches that a model requests by tags in its own turn, which then continues with the results."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from typing_extensions import TypedDict

from ragweave.nodes.options import Options
from ragweave.nodes.prompts import Reply
from ragweave.nodes.retrieve import GIVEN, arranged
from ragweave.state import RAGState


class Turn(TypedDict):
    """What a model wrote up to the end of an action, and what followed."""

    said: str
    names: list[str]
    """The names of the queries that it searched for."""
    result: str
    """What followed, if it is not what these queries found."""


class TurnsState(RAGState, total=False):
    """The state of a method whose model searches by tags."""

    turns: list[Turn]
    must_answer: bool
    """Whether the next call is asked for the answer."""


class Tags(NamedTuple):
    """The marks around an action."""

    begin: str
    end: str


class Action(NamedTuple):
    """A reply up to the end of its first action, the action's marks, and what stands between them."""

    said: str
    tags: Tags | None
    text: str


def action_of(reply: Reply[Any], tags: Sequence[Tags], *, opened: str = "") -> Action:
    """Return the first action of a reply's raw text, thoughts included.

    `opened` is the end of the prompt, which the reply continues.
    A server omits the tag that it stopped at, so the last tag may not be closed.
    """
    raw = str(reply.message.text) if reply.message else ""
    text = raw if not raw.strip() or raw.lstrip().startswith(opened) else opened + raw
    ends = [(at, one) for one in tags if (at := text.find(one.end)) >= 0]
    at, ended = min(ends, default=(len(text), None))
    said = text[:at]
    last = ended or max(tags, key=lambda one: said.rfind(one.begin))
    start = said.rfind(last.begin)
    if start < 0:
        return Action(said, None, "")
    return Action(said + last.end, last, said[start + len(last.begin) :].strip())


def boxed(text: str) -> str:
    r"""Return what the last `\boxed{…}` of a text holds; "" without one."""
    found = re.findall(r"\\boxed\{(?:\\\w+\{)?([^{}]*)", text)
    return str(found[-1]).strip() if found else ""


def transcript(turns: Sequence[Turn], result_of: Callable[[Turn], str], end: str = "") -> list[BaseMessage]:
    """Return the messages of turns: what the model wrote, and behind it what followed; `end` ends the last one."""
    if not turns:
        return [HumanMessage(end)] if end else []
    results = [result_of(one) for one in turns]
    results[-1] += end
    pairs = zip(turns, results, strict=True)
    return [one for turn, said in pairs for one in (AIMessage(turn["said"] or "…"), HumanMessage(said))]


def is_last(state: TurnsState, options: Any) -> bool:
    """Return whether the next call must answer: no round is left, or it was asked to."""
    return state["must_answer"] or len(state["turns"]) >= options.rounds


def searched(state: TurnsState, queries: Sequence[str]) -> dict[str, str]:
    """Return the queries of the next turn by name. Passages that were given are found by the first one."""
    if not state["given"]:
        return {f"round_{len(state['turns'])}_{place}": query for place, query in enumerate(queries)}
    first = not any(one["names"] for one in state["turns"])
    return {GIVEN if first else "none": " ".join(queries)}


def found_in_turns(state: TurnsState, options: Options) -> list[Document]:
    """Return what each turn found, in order, repeats included."""
    found = []
    for turn in state["turns"]:
        for name in turn["names"]:
            passages = state["passages"] if name == GIVEN else state["retrieved"].get(name, [])
            found += arranged(passages, options.order)
    return found


def of_turn(turn: Turn, shown: Sequence[Document]) -> list[Document]:
    """Return the passages, of those shown, that a turn found."""
    return [one for one in shown if one.metadata.get("query") in turn["names"]]
