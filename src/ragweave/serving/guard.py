"""Limits of a server: who may call, and how much. One `Guard` stands before each app that is served."""

import asyncio
import hashlib
import logging
import re
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import ceil

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ragweave.errors import BrokenReplyError, RunTimeoutError, UsageError
from ragweave.nodes.runner import CountedThreads, counted
from ragweave.tools.models import is_transient, status_of
from ragweave.tools.models.calls import code_of, is_overflow, retry_after

_LOG = logging.getLogger("ragweave.serving")
LOCAL_HOSTS = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine: with them as `hosts`, no web page can call by a name of its own (DNS rebinding)."""
_MAX_BODIES = 8
"""Bodies of the maximum size, or parts of more, that may be in memory at once."""
_THREADS = 64


@dataclass(frozen=True, kw_only=True)
class AccessLimits:
    """Who may call, and how much."""

    api_keys: Sequence[str] = ()
    """Every call must carry one of these keys as a bearer token; if there are none, anyone may call."""
    origins: Sequence[str] = ()
    """Origins of web pages that may call (CORS)."""
    hosts: Sequence[str] = ()
    """Host names by which callers may reach the server, without a port; if there are none, any."""
    open_paths: Sequence[str] = ()
    """Paths that need no key; `/health`, which the guard itself answers, needs none."""
    request_bytes: int = 10_000_000
    """Maximum bytes of a request's body."""
    body_seconds: float = 30
    """Maximum seconds until a body has arrived; after them, status 408."""
    concurrency: int = 8
    """Maximum requests that are answered at once."""
    queue: int = 32
    """Maximum requests that wait for their turn; further ones get status 429 at once."""
    queue_seconds: float = 10
    """Maximum seconds that a request waits for its turn; after them, status 429."""

    def __post_init__(self) -> None:
        """Raise `UsageError` if a key is empty, or keys or origins are one text, whose letters would count."""
        if isinstance(self.api_keys, str) or isinstance(self.origins, str):
            raise UsageError("api_keys and origins must be lists, not one text")
        if not all(key.strip() for key in self.api_keys):
            raise UsageError("an API key is empty, so anyone could call: is its variable set?")


def is_local(host: str) -> bool:
    """Say whether an address to listen on can be reached from this machine alone."""
    return (f"[{host}]" if ":" in host else host) in LOCAL_HOSTS


def caller_id(key: bytes) -> str:
    """Return the id of the caller that has a key."""
    return hashlib.sha256(key.strip()).hexdigest()[:32]


def caller_of(authorization: str, api_keys: Sequence[str]) -> str | None:
    """Return an id of the caller, made from the key; "" if no key is needed; None if a valid key is missing."""
    if not api_keys:
        return ""
    scheme, _, token = authorization.partition(" ")
    given = caller_id(token.encode("latin-1", "replace"))
    matches = [secrets.compare_digest(given, caller_id(key.encode())) for key in api_keys]
    return given if scheme.lower() == "bearer" and any(matches) else None


class ApiError(Exception):
    """An error message for the caller in OpenAI's form, with an HTTP status."""

    def __init__(self, status: int, message: str, *, code: str | None = None, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}
        kind = "invalid_request_error" if status < 500 else "server_error"
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": code}}


def api_error(error: Exception) -> ApiError:
    """Log why a run failed, and return the error for the caller, with a status on which clients retry only if a retry may help."""
    if refusal := _refusal(error):
        _LOG.warning("a request was refused: %s", error)
        return refusal
    _LOG.error("a request failed", exc_info=error)
    if isinstance(error, RunTimeoutError):
        return ApiError(504, "the answer took longer than the operator allows", x_should_retry="false")
    if is_transient(error) or isinstance(error, BrokenReplyError):
        return ApiError(502, "the model behind this endpoint failed: try again later")
    if status_of(error) is not None:
        return ApiError(502, "the model behind this endpoint refuses calls: the operator's log says why", **_FINAL)
    return ApiError(500, "the method failed: the operator's log says why", **_FINAL)


_FINAL = {"x_should_retry": "false"}
_PROMPT_REFUSED = ("content_filter", "content_policy_violation", "invalid_prompt")
"""OpenAI's and Azure's codes for what a prompt says."""


def _refusal(error: Exception) -> ApiError | None:
    """Return the error for a prompt that the model's server refuses, or for its rate limit; None for any other."""
    code = code_of(error)
    if is_overflow(error):
        message = "the question does not fit into the model's context: ask a shorter one"
        return ApiError(400, message, code="context_length_exceeded")
    if code in _PROMPT_REFUSED:
        return ApiError(400, "the model's server refused the content of the question or its passages", code=code)
    if status_of(error) != 429:
        return None
    if code == "insufficient_quota":
        return ApiError(429, "the quota of the model behind this endpoint is spent", code=code, **_FINAL)
    wait = str(ceil(retry_after(error) or 1))
    return ApiError(
        429, "the rate limit of the model behind this endpoint is reached", code="rate_limit_exceeded", retry_after=wait
    )


class Guard:
    """An ASGI app that admits callers with a key and limits what they send and how much is answered at once.

    The app finds the caller's id in `scope["caller"]`. The body of a POST must be JSON, because a browser sends JSON from a
    page of another origin only after asking. A POST, or a GET of a quote's page (`…/sources/…`), has a slot from when its
    body has arrived until its answer is sent and every thread that worked on it has ended, even if the caller has left.
    """

    def __init__(self, app: ASGIApp, limits: AccessLimits) -> None:
        self.limits = limits
        self._app, self._guarded = app, self._let_through
        if limits.origins:
            self._guarded = CORSMiddleware(
                self._let_through,
                allow_origins=list(limits.origins),
                allow_methods=["GET", "POST"],
                allow_headers=["*"],  # OpenAI's own client sends a dozen; cookies stay forbidden
                expose_headers=["x-should-retry", "retry-after"],
            )
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._waiting = self._bytes = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through, or refuse it."""
        await (self._guarded if scope["type"] == "http" else self._app)(scope, receive, send)

    async def _let_through(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["path"] == "/health":
                await JSONResponse({"status": "ok"})(scope, receive, send)
                return
            self._admit(scope)
            if scope["method"] in ("GET", "HEAD", "OPTIONS") and "/sources/" not in scope["path"]:
                await self._app(scope, receive, send)
            else:
                await self._answer(scope, receive, send)
        except ApiError as error:  # the rest of a body that was not read would be taken for the next request
            headers = error.headers or {"connection": "close"}
            await JSONResponse(error.body, error.status, headers)(scope, receive, send)

    def _admit(self, scope: Scope) -> None:
        limits, headers = self.limits, Headers(scope=scope)
        if limits.hosts and re.sub(r":\d*$", "", headers.get("host", "")).lower() not in limits.hosts:
            raise ApiError(421, f"without a key, this server answers only to the host names {', '.join(limits.hosts)}")
        scope["caller"] = caller_of(headers.get("authorization", ""), limits.api_keys)
        if scope["caller"] is None and scope["path"] not in limits.open_paths:
            raise ApiError(401, "a valid API key is needed: Authorization: Bearer KEY")
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            raise ApiError(415, "the body must be JSON: Content-Type: application/json")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                await self._read(receive, body)
        except TimeoutError:
            raise ApiError(408, f"the body did not arrive within {self.limits.body_seconds:g} seconds") from None
        else:
            async with self._slot():
                await self._app(scope, _with_body(bytes(body), receive), send)
        finally:
            self._bytes -= len(body)

    async def _read(self, receive: Receive, body: bytearray) -> None:
        """Read a request's body, which counts as being in memory until the request has ended."""
        limit, more = self.limits.request_bytes, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ApiError(499, "the caller went away")
            piece = message.get("body", b"")
            body += piece
            self._bytes += len(piece)
            if len(body) > limit:
                raise ApiError(413, f"a request may have at most {limit} bytes")
            if self._bytes > _MAX_BODIES * limit:
                raise self._busy()
            more = message.get("more_body", False)

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        if self._slots.locked() and self._waiting >= self.limits.queue:
            raise self._busy()
        self._waiting += 1
        try:
            async with asyncio.timeout(self.limits.queue_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise self._busy() from None
        finally:
            self._waiting -= 1
        try:
            self._use_counted_threads()
            with counted() as futures:
                yield
        finally:
            try:
                while running := [asyncio.wrap_future(future) for future in [*futures] if not future.done()]:
                    await asyncio.wait(running)
            finally:
                self._slots.release()

    def _use_counted_threads(self) -> None:
        """Let the loop's own threads be counted: LangChain and LangGraph run there what cannot be awaited."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            loop.set_default_executor(CountedThreads(_THREADS, "ragweave"))
            self._loop = loop

    def _busy(self) -> ApiError:
        return ApiError(429, "too many requests at once: try again", retry_after=str(ceil(self.limits.queue_seconds)))


def _with_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives a body that was read, and then what the caller does next."""
    pending: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return pending.pop() if pending else await receive()

    return next_message
