"""Limits of a server: who may call, and how much."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ragweave.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class AccessLimits:
    """Who may call, and how much."""

    api_keys: Sequence[str] = ()
    """Every call must carry one of these keys as a bearer token; if there are none, anyone may call."""
    origins: Sequence[str] = ()
    """Origins of web pages that may call (CORS)."""
    request_bytes: int = 10_000_000
    """Maximum bytes of a request."""
    concurrency: int = 8
    """Maximum requests in flight; further ones get status 429."""

    def __post_init__(self) -> None:
        """Check keys and numbers.

        Raises:
            UsageError: A key is empty, the keys or origins are a text instead of a list, or a number is below 1.
        """
        if isinstance(self.api_keys, str) or isinstance(self.origins, str):
            raise UsageError("api_keys and origins must be lists, not one text")
        if not all(key.strip() for key in self.api_keys):
            raise UsageError("an API key is empty, so anyone could call: is its variable set?")
        if self.request_bytes < 1 or self.concurrency < 1:
            raise UsageError("request_bytes and concurrency must be at least 1")


def error_body(status: int, message: str, code: str | None = None) -> dict[str, object]:
    """Return an error in OpenAI's form."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


class Guard:
    """An ASGI app that admits callers with a key and limits the requests in flight.

    `/health` needs no key. Only POST requests count, until their last byte is sent.
    """

    def __init__(self, app: ASGIApp, limits: AccessLimits) -> None:
        """Guard `app`."""
        self._app = app
        self._keys = [key.strip().encode() for key in limits.api_keys]
        self._free = limits.concurrency

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through, or answer 401 or 429."""
        if scope["type"] != "http" or scope["path"] == "/health":
            await self._app(scope, receive, send)
        elif not self._admits(dict(scope["headers"]).get(b"authorization", b"")):
            body = error_body(401, "a valid API key is needed: Authorization: Bearer KEY")
            await JSONResponse(body, 401)(scope, receive, send)
        elif scope["method"] != "POST":
            await self._app(scope, receive, send)
        elif not self._free:
            body = error_body(429, "too many requests at once: try again")
            await JSONResponse(body, 429, {"retry-after": "1"})(scope, receive, send)
        else:
            self._free -= 1
            try:
                await self._app(scope, receive, send)
            finally:
                self._free += 1

    def _admits(self, authorization: bytes) -> bool:
        scheme, _, token = authorization.partition(b" ")
        matches = [secrets.compare_digest(token.strip(), key) for key in self._keys]
        return not self._keys or (scheme.lower() == b"bearer" and any(matches))
