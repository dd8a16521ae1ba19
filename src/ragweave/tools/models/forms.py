"""Whether a model can hold a reply to a form: a grammar, or a JSON schema."""

from __future__ import annotations

import json
import threading
import weakref
from typing import Any, Literal

from langchain_core.messages import BaseMessage
from langchain_core.runnables.base import RunnableBindingBase

from ragweave.tools.models.faults import status_of
from ragweave.tools.models.roles import ChatModel

Form = Literal["grammar", "json_schema"]
"""`grammar`: `bind(grammar=…)` takes a GBNF grammar. `json_schema`: `bind(response_format=…)` takes
OpenAI's `{"type": "json_schema", "json_schema": {"name": …, "schema": …, "strict": True}}`."""

_NONE: frozenset[Form] = frozenset()
_SCHEMA = {
    "type": "object",
    "properties": {"reply": {"type": "string", "enum": ["violet"]}},
    "required": ["reply"],
    "additionalProperties": False,
}
_TRY: dict[str, Any] = {
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "reply", "schema": _SCHEMA, "strict": True},
    },
    "max_tokens": 32,
}
_QUESTION = "Name a colour."
_known: dict[int, frozenset[Form]] = {}
_lock = threading.Lock()


def offered_forms(model: ChatModel) -> frozenset[Form]:
    """Return the forms that a model can hold a reply to.

    A llama.cpp model offers both, at no cost. An OpenAI-compatible server is asked once, by a call
    of a few tokens that does not enter the run's usage, and what it did is remembered with the
    model object. No other model is known to offer any.

    Raises:
        Exception: The server failed in a way that says nothing of forms (no key, no connection).
    """
    target = _unbound(model)
    ready = _without_asking(target)
    if ready is not None:
        return ready
    try:
        reply = target.invoke(_QUESTION, **_TRY)
    except Exception as fault:  # noqa: BLE001 - raised again where it says nothing of forms
        return _remember(target, _refused(fault))
    return _remember(target, _seen(reply))


async def aoffered_forms(model: ChatModel) -> frozenset[Form]:
    """Return the forms that a model can hold a reply to, as `offered_forms` does."""
    target = _unbound(model)
    ready = _without_asking(target)
    if ready is not None:
        return ready
    try:
        reply = await target.ainvoke(_QUESTION, **_TRY)
    except Exception as fault:  # noqa: BLE001 - raised again where it says nothing of forms
        return _remember(target, _refused(fault))
    return _remember(target, _seen(reply))


def _unbound(model: ChatModel) -> Any:
    target: Any = model
    while isinstance(target, RunnableBindingBase):
        target = target.bound
    return target


def _without_asking(target: Any) -> frozenset[Form] | None:
    """Return what is known without a call; None where only a call can tell."""
    if getattr(target, "offers_grammar", False) is True:
        return frozenset({"grammar", "json_schema"})
    if not any(kind.__name__ == "BaseChatOpenAI" for kind in type(target).__mro__):
        return _NONE
    with _lock:
        return _known.get(id(target))


def _remember(target: Any, forms: frozenset[Form]) -> frozenset[Form]:
    with _lock:
        if id(target) not in _known:
            weakref.finalize(target, _known.pop, id(target), None)
        _known[id(target)] = forms
    return forms


def _refused(fault: Exception) -> frozenset[Form]:
    """Read a failed try: the request was understood and refused, or else it says nothing."""
    if status_of(fault) not in (400, 404, 415, 422, 501):
        raise fault
    return _NONE


def _seen(reply: BaseMessage) -> frozenset[Form]:
    """Say whether a reply kept to the form: some servers pass over what they do not know."""
    try:
        kept = json.loads(str(reply.text)) == {"reply": "violet"}
    except ValueError:
        kept = False
    return frozenset({"json_schema"}) if kept else _NONE
