"""Odd models: what broken servers and small models reply, each a script of `ScriptedModel`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from langchain_core.messages import AIMessage

from ragweave.testing.scripted import ModelCall

HIDDEN = "zqxv"
"""A word that no answer may hold: it stands where a model thinks, calls a tool or breaks off."""

_NONE = {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
_TOOL = {"name": "web_search", "args": {"query": HIDDEN}, "id": "1"}


@dataclass(frozen=True)
class OddModel:
    """A kind of model: how it replies, and what a run with it shows."""

    reply: Callable[[ModelCall], AIMessage]
    note: str = ""
    """What is noted of each reply."""
    answers: bool = False
    """Whether its replies hold an answer; if not, the run's is Unknown."""
    estimated: bool = False
    """Whether its tokens are estimated."""
    error: str = ""
    """The name of the error that ends the run."""


def _says(content: Any, **fields: Any) -> Callable[[ModelCall], AIMessage]:
    return lambda _call: AIMessage(content, **fields)


def _ended(reason: str, content: str = f"Ada Brenner {HIDDEN}") -> Callable[[ModelCall], AIMessage]:
    return _says(content, response_metadata={"finish_reason": reason})


def _dropping(text: str) -> Callable[[ModelCall], AIMessage]:
    calls = count(1)

    def reply(_call: ModelCall) -> AIMessage:
        if next(calls) % 3 == 0:
            raise ConnectionError("connection reset by peer")
        return AIMessage(text)

    return reply


_BLOCKS = [
    {"type": "reasoning", "reasoning": HIDDEN},
    {"type": "text", "text": "Ada "},
    {"type": "text", "text": "Brenner"},
]

ODD_MODELS: Mapping[str, OddModel] = {
    "its provider breaks off": OddModel(_ended("error"), error="BrokenReplyError"),
    "gives the prompt back": OddModel(lambda call: AIMessage(call.text), note="prompt_echoed"),
    "calls a tool that nobody offered": OddModel(_says("", tool_calls=[_TOOL]), note="tool_not_offered"),
    "invisible characters": OddModel(_says("\ufeff\u200b \n\u200b"), note="empty_reply"),
    "no block": OddModel(_says([]), note="empty_reply"),
    "thoughts without an end": OddModel(_ended("length", f"<think>{HIDDEN}"), note="reply_limit_reached"),
    "thoughts beside an empty reply": OddModel(
        _says("", additional_kwargs={"reasoning_content": HIDDEN}), note="empty_reply"
    ),
    "refuses": OddModel(_says("", additional_kwargs={"refusal": HIDDEN}), note="content_filtered"),
    "thoughts in blocks": OddModel(_says(_BLOCKS), answers=True),
    "counts no tokens": OddModel(_says("Ada Brenner", usage_metadata=_NONE), answers=True, estimated=True),
    "is cut at its limit": OddModel(_ended("max_tokens", "Ada Brenner"), answers=True, note="reply_limit_reached"),
    "never stops": OddModel(_says("Ada Brenner built it. " * 2_500), answers=True),
    "loses every third connection": OddModel(_dropping("Ada Brenner"), answers=True),
}
"""Kinds of models, by what they do."""
