"""Which errors of a model server are transient, and which the caller must fix."""

from __future__ import annotations

from collections.abc import Iterator

from ragweave.errors import RagweaveError

TRANSIENT_STATUS = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 after which a retry may succeed."""

_TRANSIENT_NAMES = frozenset({"TransportError", "APIConnectionError", "APITimeoutError"})


def is_transient(error: BaseException) -> bool:
    """Return whether a call that failed with `error` is worth retrying.

    Transient: HTTP 408, 409, 425, 429 and 5xx, timeouts, and dropped or refused connections, of
    any client library (recognised by status code and class name, so that none is imported).
    Never: other 4xx such as 400 and 401, and every error that ragweave itself raises.
    """
    if isinstance(error, RagweaveError):
        return False
    status = status_of(error)
    if status is not None:
        return status in TRANSIENT_STATUS or status >= 500
    return any(_is_dropped(link) for link in _chain(error))


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that `error` or its cause carries, if any."""
    for link in _chain(error):
        status = getattr(link, "status_code", None)
        if status is None:
            status = getattr(getattr(link, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
    return None


def _is_dropped(error: BaseException) -> bool:
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return any(kind.__name__ in _TRANSIENT_NAMES for kind in type(error).__mro__)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or link.__context__
