"""Which errors of a model server are transient, which the caller must fix, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from langchain_core.exceptions import ModelError

from ragweave.errors import RagweaveError

TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 after which a retry may succeed."""

_TRANSIENT_NAMES = frozenset({"TransportError", "APIConnectionError", "APITimeoutError"})


def is_transient(error: BaseException) -> bool:
    """Return whether a call that failed with `error` is worth retrying.

    Transient: HTTP 408, 409, 425, 429 and 5xx, timeouts, and dropped or refused connections, of
    any client library (recognised by status code and class name, so that none is imported).
    Never: other 4xx such as 400 and 401, and every error that ragweave itself raises. LangChain's own
    errors say it themselves.
    """
    if isinstance(error, RagweaveError):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    status = status_of(error)
    if status is not None:
        return status in TRANSIENT_STATUS or status >= 500
    return any(
        isinstance(link, ConnectionError | TimeoutError)
        or any(kind.__name__ in _TRANSIENT_NAMES for kind in type(link).__mro__)
        for link in _chain(error)
    )


def is_refused(error: BaseException) -> bool:
    """Return whether there was no server at the address; clients have tried again, and it stays so."""
    names = ("ConnectError", "ConnectionRefusedError")  # httpx's and Python's
    return any(type(link).__name__ in names for link in _chain(error))


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that `error` or its cause carries, if any.

    Some gateways (OpenRouter) report an error in a reply of status 200; its code counts then.
    """
    for link in _chain(error):
        status = _http_status(link)
        if status is None or status < 400:
            code = _reported(link).get("code")
            status = code if type(code) is int and 400 <= code < 600 else status
        if status is not None:
            return status
    return None


def server_text(error: BaseException) -> str:
    """Return the server's message on one line, or the system's if none was reached, or else the error's own."""
    said = (one for link in _chain(error) if (one := _reported(link).get("message")))
    lost = (link for link in _chain(error) if isinstance(link, OSError) and link.errno and is_transient(error))
    return " ".join(str(next(chain(said, lost), error)).split()) or type(error).__name__


def _http_status(error: BaseException) -> int | None:
    status = getattr(error, "status_code", None)
    if status is None:
        status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _reported(error: BaseException) -> Mapping[str, Any]:
    """Return the error object that a server sent as JSON; empty if it sent none.

    The openai client stores it; LangChain's raises it unchanged where the reply's status was 200.
    """
    given = error.args[0] if isinstance(error, ValueError) and error.args else getattr(error, "body", None)
    return given if isinstance(given, Mapping) else {}


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
