"""How many tokens a model takes that an OpenAI-compatible server offers, as the server says.

vLLM and SGLang list a model's `max_model_len` under `/v1/models`; llama-server lists the context of
a slot as `meta.n_ctx`, and older versions tell it under `/props` alone. The server is asked
before the first call of a model object; calls that begin at once may each ask.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Generator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ragweave.tools.bindings import unbound
from ragweave.tools.models.errors import is_transient
from ragweave.tools.models.roles import ChatModel
from ragweave.tools.models.thinking import model_name

_LOGGER = logging.getLogger("ragweave.models")

_OWN = ("openai.com", "azure.com", "azure-api.net")
"""Hosts of OpenAI's own servers and of Azure's, which tell no context."""
_PATIENCE = 3.0
"""Seconds: an answer that does not come is no reason to wait."""

_told: dict[int, int | None] = {}
_lock = threading.Lock()


def is_openai_host(url: str) -> bool:
    """Return whether an address is that of OpenAI's own servers or of Azure's."""
    host = (urlsplit(url).hostname or "").lower()
    return any(host == one or host.endswith(f".{one}") for one in _OWN)


def served_context(model: object) -> int | None:
    """Return the tokens of the context that a model's server told of; None where none is known."""
    return _told.get(id(unbound(model)))


def may_tell_context(model: object) -> bool:
    """Return whether a model's server is still to be asked for the model's context."""
    target = unbound(model)
    if not any(kind.__name__ == "BaseChatOpenAI" for kind in type(target).__mro__):
        return False
    client = getattr(target, "root_client", None)
    known = (getattr(target, "profile", None) or {}).get("max_input_tokens")
    if client is None or known is not None or id(target) in _told:
        return False
    return not is_openai_host(str(client.base_url))


def learn_context(model: ChatModel) -> None:
    """Ask a model's server for the model's context, and remember it for the model object.

    A server that can't be reached is asked again next time, one that does not tell, or keeps one
    waiting, is not.
    """
    import openai

    target = unbound(model)
    work = _reading(model_name(target))
    try:
        path = next(work)
        while True:
            path = work.send(_body(_client(target.root_client, path).get(path, **_raw())))
    except StopIteration as end:
        _remember(target, end.value)
    except openai.APIError as error:
        _failed(target, error)


async def alearn_context(model: ChatModel) -> None:
    """Ask a model's server for the model's context, as `learn_context` does."""
    import openai

    target = unbound(model)
    work = _reading(model_name(target))
    try:
        path = next(work)
        while True:
            client = _client(target.root_async_client, path)
            path = work.send(_body(await client.get(path, **_raw())))
    except StopIteration as end:
        _remember(target, end.value)
    except openai.APIError as error:
        _failed(target, error)


def _reading(name: str) -> Generator[str, Mapping[str, Any], int | None]:
    """Read a context from what a server answers, path by path."""
    listed = (yield "/models").get("data")
    entries = (
        [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    )
    # llama-server has one model, and answers to any name.
    named = [one for one in entries if one.get("id") == name or len(entries) == 1]
    entry: Mapping[str, Any] = named[0] if named else {}
    meta = entry.get("meta")
    if not isinstance(meta, Mapping):
        return _count(entry.get("max_model_len"))
    if (size := _count(meta.get("n_ctx"))) is not None or "n_ctx_train" not in meta:
        return size
    slot = (yield "/props").get("default_generation_settings")
    return _count(slot.get("n_ctx")) if isinstance(slot, Mapping) else None


def _count(told: object) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) and told > 0 else None


def _client(client: Any, path: str) -> Any:
    """Return a client that asks once; `/props` stands beside `/v1`."""
    root = str(client.base_url).rstrip("/").removesuffix("/v1")
    place = {"base_url": root} if path == "/props" else {}
    return client.with_options(timeout=_PATIENCE, max_retries=0, **place)


def _raw() -> dict[str, Any]:
    import httpx

    return {"cast_to": httpx.Response}


def _body(response: Any) -> Mapping[str, Any]:
    try:
        told = response.json()
    except (ValueError, RecursionError):  # a page, say, of whatever stands there
        return {}
    return told if isinstance(told, Mapping) else {}


def _remember(target: Any, size: int | None) -> None:
    with _lock:
        if id(target) not in _told:
            weakref.finalize(target, _told.pop, id(target), None)
        _told[id(target)] = size
    _LOGGER.debug("the server of %s tells a context of %s tokens", model_name(target), size)


def _failed(target: Any, error: Exception) -> None:
    import openai

    if isinstance(error, openai.APITimeoutError) or not is_transient(error):
        _remember(target, None)
