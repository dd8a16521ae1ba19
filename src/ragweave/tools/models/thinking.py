"""Models that think before they speak: which do, how much room they need, and what they refuse."""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, TypeGuard

from langchain_core.messages import BaseMessage

from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.text.reply import bounded, reply_text, without_thinking

THINKING_TOKENS = 2048
"""Room for a thinking block, where a model's limit counts it and nothing says how long it is."""

_REASONER = re.compile(r"(?:\A|/)(?:o\d|gpt-5)|\br1\b|qwq|reasoner|thinking", re.IGNORECASE)
_SWITCHES = ("reasoning_effort", "reasoning", "thinking", "enable_thinking")
_OFF = ("none", "off", "disabled", False)
_thinkers: set[int] = set()
_lock = threading.Lock()


def thinking_room(model: object) -> int:
    """Return the tokens that a model's thoughts need within the limit of its reply; 0: none.

    A budget that the model was given (Claude's `budget_tokens`) is that number: a limit below it is
    refused.
    """
    if not _counts_thinking(model):
        return 0
    tables = (table.get("thinking") for table in _tables(model))
    budgets = (one.get("budget_tokens") for one in tables if _is_enabled(one))
    return next((one for one in budgets if isinstance(one, int) and one > 0), THINKING_TOKENS)


def _counts_thinking(model: object) -> bool:
    """Say whether a model thinks before it speaks, within the limit of its reply."""
    target = unbound(model)
    if getattr(target, "offers_grammar", False) is True:
        return False  # llama.cpp here counts the thinking block by itself: `thinking_tokens`
    if getattr(target, "thinks", None) is False:
        return False  # a trained part or the embedded default: an empty reply is just that
    if id(target) in _thinkers:
        return True
    told = [table.get(name) for table in _tables(model) for name in _SWITCHES]
    told = [one for one in told if one is not None]
    if any(not _is_off(one) for one in told):
        return True
    return not told and bool(_REASONER.search(model_name(target)))


def _is_off(told: object) -> bool:
    """Say whether a switch is off: `none`, false, `{"type": "disabled"}`, `{"effort": "none"}`."""
    if isinstance(told, Mapping):
        told = told.get("type", told.get("effort"))
    return told in _OFF


def _tables(model: object) -> Iterator[Mapping[str, Any]]:
    """Yield the settings of a model: bound ones, its own, and what either puts into the request."""
    target = unbound(model)
    own = {name: getattr(target, name, None) for name in (*_SWITCHES, "extra_body")}
    for table in (*bound_settings(model), own):
        yield table
        if isinstance(body := table.get("extra_body"), Mapping):
            yield body
            if isinstance(template := body.get("chat_template_kwargs"), Mapping):
                yield template


def model_name(target: object) -> str:
    """Return the name of the model behind a client; Azure's may have that of its deployment alone."""
    named = (getattr(target, name, None) for name in ("model_name", "model", "deployment_name"))
    return next((one for one in named if isinstance(one, str) and one), "")


def note_thinking(model: object) -> None:
    """Remember that a model's thoughts count within the limit of its reply."""
    target = unbound(model)
    with _lock:
        if id(target) not in _thinkers:
            weakref.finalize(target, _thinkers.discard, id(target))
        _thinkers.add(id(target))


def shows_thoughts(message: BaseMessage, text: str) -> bool:
    """Return whether a reply has thoughts: beside its text, in it, or counted in its usage.

    Args:
        message: The reply.
        text: Its text.
    """
    blocks = message.content if isinstance(message.content, list) else []
    if any(isinstance(one, dict) and one.get("type") in _THOUGHTS for one in blocks):
        return True
    usage = getattr(message, "usage_metadata", None) or {}
    if message.additional_kwargs.get("reasoning_content"):
        return True
    if (usage.get("output_token_details") or {}).get("reasoning"):
        return True
    said = bounded(text).strip()
    return without_thinking(said) != said


def lost_to_thoughts(message: BaseMessage) -> bool:
    """Say whether thoughts took up a reply that was cut: it shows some, or says nothing at all.

    A client that keeps thoughts to itself hands over nothing. Text by itself is no thought: small
    models chat where a few words are wanted.
    """
    text = reply_text(message)
    return not without_thinking(bounded(text)) or shows_thoughts(message, text)


_THOUGHTS = ("thinking", "reasoning", "reasoning_content")
"""Types of the blocks of a reply that hold thoughts: Claude's, OpenAI's, Bedrock's."""


_REASONING = re.compile(r"(?:\A|/)(o\d|gpt-5(?!.*chat))", re.IGNORECASE)
"""OpenAI's models that reason, by the beginning of their names, behind a proxy's `openai/` too."""


def is_openai_reasoner(name: str) -> bool:
    """Return whether a name is that of a model of OpenAI's that reasons: o3, GPT-5."""
    return _REASONING.search(name) is not None


def always_samples(name: str, settings: Mapping[str, Any]) -> bool:
    """Return whether one of OpenAI's models refuses a temperature, by its name and settings.

    Those that reason do; GPT-5 takes one where it is told not to reason (langchain-openai,
    `validate_temperature`).
    """
    if (found := _REASONING.search(name)) is None:
        return False
    table = settings.get("reasoning")
    told = table.get("effort") if isinstance(table, Mapping) else None
    effort = settings.get("reasoning_effort") or told
    return found[1].lower().startswith("o") or effort != "none"


def _is_enabled(table: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(table, Mapping) and table.get("type") in ("enabled", "adaptive")


def thinks_by_table(model: object) -> bool:
    """Return whether a model is told to think by a table `thinking`, as Claude is.

    It then takes no temperature
    (https://docs.claude.com/en/docs/build-with-claude/extended-thinking).
    """
    own = getattr(unbound(model), "thinking", None)
    return any(map(_is_enabled, (own, *(one.get("thinking") for one in bound_settings(model)))))


def takes_stop(model: object) -> bool:
    """Return whether a server ends a reply at stop sequences where a call names some.

    OpenAI's refuses them for its models that reason, and its Responses API has none: the client,
    which decides by itself whether to call that one, leaves them out.
    """
    target = unbound(model)
    if not any(kind.__name__ == "BaseChatOpenAI" for kind in type(target).__mro__):
        return True
    return not (_calls_responses_api(model) or is_openai_reasoner(model_name(target)))


def _calls_responses_api(model: object) -> bool:
    """Ask LangChain's client for OpenAI which API it calls, by its own and bound settings."""
    target = unbound(model)
    decide = getattr(target, "_use_responses_api", None)
    if not callable(decide):
        return getattr(target, "use_responses_api", None) is True
    bound = {name: one for table in bound_settings(model) for name, one in table.items()}
    return bool(decide({**(getattr(target, "model_kwargs", None) or {}), **bound}))
