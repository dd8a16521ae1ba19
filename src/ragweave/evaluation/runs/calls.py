"""Model calls as a run sees them: what tells them apart, and what a reply cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, messages_from_dict, messages_to_dict
from langchain_core.runnables import RunnableConfig

from ragweave.state import Tokens
from ragweave.tools.models.bindings import unbound
from ragweave.tools.tasks import KEY
from ragweave.tools.text.tokens import estimate_message_tokens, estimate_tokens


@dataclass(frozen=True, slots=True)
class Asked:
    """A call: what is asked, of whom, for what."""

    spec: str
    """The model's spec string."""
    role: str
    thread: str
    """The question and system that it is for."""
    place: str
    """Digest of where in the graph it stands and what it asks: the same again after a restart."""
    reply: str
    """Digest of model, settings and messages, and for sampled calls of the sample: the same in
    every run."""
    messages: Any


def asked(
    spec: str,
    sampled: bool,
    messages: Any,
    config: RunnableConfig | None,
    settings: Any,
    *,
    shared: bool = True,
) -> Asked:
    """Return a call with its digests.

    Args:
        spec: The model's spec string.
        sampled: Whether the model draws its words at random (temperature above 0).
        messages: The prompt: messages, or a text.
        config: The run configuration that LangGraph handed down.
        settings: Settings of this call, such as a temperature.
        shared: Whether runs share replies; else the reply's digest is "".
    """
    about: Mapping[str, Any] = (config or {}).get("metadata") or {}
    step, node = about.get("langgraph_step"), about.get("ragweave_node")
    path = about.get("langgraph_path")
    prompt = [_plain(messages), sorted((str(key), value) for key, value in settings.items())]
    drawn = [node, about.get("ragweave_sample", path)] if sampled else None
    return Asked(
        spec=spec,
        role=str(about.get("ragweave_role", "answer")),
        thread=str(((config or {}).get("configurable") or {}).get("thread_id", "")),
        place=_digest([step, node, path, prompt]),
        reply=_digest([spec, prompt, drawn]) if shared else "",
        messages=messages,
    )


def temperature_of(model: object) -> float:
    """Return the temperature that a model decodes with; 0 where it tells none."""
    return float(getattr(unbound(model), "temperature", None) or 0.0)


def dump(message: BaseMessage) -> str:
    """Return a message as JSON."""
    return json.dumps(messages_to_dict([message])[0], ensure_ascii=False, default=str)


def load(text: str) -> BaseMessage:
    """Read what `dump` made."""
    return messages_from_dict([json.loads(text)])[0]


def tokens_of(message: BaseMessage, messages: Any) -> Tokens:
    """Return what a reply to `messages` cost, as reported, or estimated from characters."""
    usage = message.usage_metadata if isinstance(message, AIMessage) else None
    if usage:
        given, made = usage["input_tokens"], usage["output_tokens"]
    else:
        listed = [one for one in messages if isinstance(one, BaseMessage)]
        given, made = estimate_message_tokens(listed), estimate_tokens(message.text)
    return {"calls": 1, "input_tokens": given, "output_tokens": made}


def _plain(messages: Any) -> Any:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return str(messages)
    return [
        [one.type, one.content, {k: v for k, v in one.additional_kwargs.items() if k != KEY}]
        if isinstance(one, BaseMessage)
        else one
        for one in messages
    ]


def _digest(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
