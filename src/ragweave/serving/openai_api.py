"""Methods behind OpenAI's chat completions: for Open WebUI, the openai client, LangChain's `ChatOpenAI`.

    app = create_app({"concat_pf": build_chat("concat_pf", model=…, retriever=…)})

Each conversation is a model of the endpoint, by its method's name. A caller chooses messages and one
of these models, nothing else: `temperature` and the like are read and passed over. Citations are
annotations of the message.

FastAPI and the `openai` package's own types, no third library. Two were read for this:
fastapi-openai-compat 1.4 ends a stream without `[DONE]`, counts no usage and answers errors in a
form of its own; langgraph-openai-serve 0.31 takes a citation's quote for a part of the answer, and
so refuses LangChain's annotations. Either would have left us most of what stands here to write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from fastapi import FastAPI, Request
from fastapi.middleware.cors import CORSMiddleware
from fastapi.responses import JSONResponse, Response, StreamingResponse
from langchain_core.exceptions import ContextOverflowError
from openai.types import CompletionUsage, Model
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import ValidationError
from starlette.types import Receive, Scope, Send

from ragweave.errors import PromptTooLongError, RunTimeoutError, UsageError
from ragweave.graphs import ChatGraph
from ragweave.serving.keys import Keys
from ragweave.serving.openai_forms import (
    ApiError,
    ChatRequest,
    Chunks,
    cited,
    completion,
    messages_of,
)
from ragweave.tools.models.errors import is_transient, status_of

_LOG = logging.getLogger("ragweave.serving")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Who may call the endpoint, and how much."""

    api_keys: Sequence[str] = ()
    """Keys, one of which every call must bring as a bearer token; none: anyone may call."""
    origins: Sequence[str] | str = ()
    """Origins of web pages that may call (CORS); a text is one origin."""
    request_bytes: int = 1_000_000
    """Most bytes of a request."""
    concurrency: int = 8
    """Requests in flight at once; what comes on top is answered with 429."""

    def __post_init__(self) -> None:
        """Check the keys and the numbers; take a text as one origin.

        Raises:
            UsageError: A key is empty, or a number below 1.
        """
        Keys(self.api_keys)
        if isinstance(self.origins, str):
            object.__setattr__(self, "origins", (self.origins,) if self.origins else ())
        for name in ("request_bytes", "concurrency"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, not {getattr(self, name)}")


class Endpoint:
    """The conversations that are served, and what the metrics count."""

    def __init__(self, chats: Mapping[str, ChatGraph], limits: Limits) -> None:
        """Serve `chats` by their names."""
        self.chats = chats
        self.limits = limits
        self._keys = Keys(limits.api_keys)
        self.started = int(time.time())
        self.registry = CollectorRegistry()
        labels = ("model", "status")
        self.requests = Counter(
            "ragweave_requests", "Chat completions asked for.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "ragweave_request_seconds",
            "Seconds an answer took.",
            ("model",),
            registry=self.registry,
        )
        self.tokens = Counter(
            "ragweave_tokens", "Tokens of model calls.", ("model", "kind"), registry=self.registry
        )
        self.in_flight = Gauge(
            "ragweave_in_flight", "Requests being answered.", registry=self.registry
        )
        self._free = limits.concurrency

    def check_key(self, request: Request) -> None:
        """Refuse a caller without a key.

        Raises:
            ApiError: There are keys, and this caller has none of them.
        """
        if not self._keys.admit(request.headers.get("authorization", "").encode("latin-1")):
            raise ApiError(401, "a valid API key is needed: Authorization: Bearer KEY")

    async def read(self, request: Request) -> ChatRequest:
        """Read a request, as far as the limit.

        Raises:
            ApiError: It is too large, is no chat completion, or names no served model.
        """
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > self.limits.request_bytes:
                raise ApiError(413, f"a request has at most {self.limits.request_bytes} bytes")
        try:
            asked = ChatRequest.model_validate_json(body)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise ApiError(400, f"{where}: {first['msg']}") from error
        if asked.model not in self.chats:
            names = ", ".join(self.chats)
            raise ApiError(
                404, f"there is no model {asked.model!r}: {names}", code="model_not_found"
            )
        return asked

    @asynccontextmanager
    async def slot(self, model: str) -> AsyncIterator[None]:
        """Count a request in and out.

        Raises:
            ApiError: As many as allowed are in flight.
        """
        if not self._free:
            self.requests.labels(model, "429").inc()
            raise ApiError(429, "too many requests at once: try again", retry_after="1")
        self._free -= 1
        self.in_flight.inc()
        started, status = time.perf_counter(), "500"
        try:
            yield
            status = "200"
        except ApiError as error:
            status = str(error.status)
            raise
        except (asyncio.CancelledError, GeneratorExit):  # the caller has gone away
            status = "499"
            raise
        finally:
            self._free += 1
            self.in_flight.dec()
            self.requests.labels(model, status).inc()
            self.seconds.labels(model).observe(time.perf_counter() - started)

    def count_tokens(self, model: str, out: Mapping[str, Any]) -> None:
        """Count the tokens of an answer's model calls; a run that came to none counts for nothing."""
        if out.get("answer"):
            self.tokens.labels(model, "input").inc(out["usage"]["input_tokens"])
            self.tokens.labels(model, "output").inc(out["usage"]["output_tokens"])


def create_app(chats: Mapping[str, ChatGraph], limits: Limits | None = None) -> FastAPI:
    """Return the app that serves conversations, each as a model of the endpoint.

    Paths: `/v1/chat/completions`, `/v1/models`, `/health`, and `/metrics` in Prometheus' form.

    Args:
        chats: Conversations by the name of their method, without a checkpointer.
        limits: Keys, origins, sizes; None: the defaults, without a key.
    """
    limits = limits or Limits()
    endpoint = Endpoint(chats, limits)
    app = FastAPI(title="ragweave", docs_url=None, redoc_url=None, openapi_url=None)
    if limits.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(limits.origins),
            allow_methods=["GET", "POST"],
            allow_headers=["*"],  # OpenAI's own client sends a dozen; cookies stay forbidden
            expose_headers=["x-should-retry", "retry-after"],
        )

    @app.exception_handler(ApiError)
    async def refused(_request: Request, error: ApiError) -> JSONResponse:
        return JSONResponse(error.body, error.status, error.headers)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        endpoint.check_key(request)
        return Response(generate_latest(endpoint.registry), media_type="text/plain; version=0.0.4")

    _add_completions(app, endpoint)
    return app


def _add_completions(app: FastAPI, endpoint: Endpoint) -> None:
    """Add the paths of OpenAI's protocol."""
    chats = endpoint.chats

    @app.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        endpoint.check_key(request)
        return {"object": "list", "data": [_model(endpoint, name) for name in chats]}

    @app.get("/v1/models/{name}")
    async def model(request: Request, name: str) -> dict[str, Any]:
        endpoint.check_key(request)
        if name not in chats:
            raise ApiError(404, f"there is no model {name!r}", code="model_not_found")
        return _model(endpoint, name)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        endpoint.check_key(request)
        asked = await endpoint.read(request)
        given = {"messages": list(messages_of(asked.messages))}
        if asked.stream:
            return await _streamed(endpoint, request, asked, given)
        return JSONResponse(await _while_there(request, _answered(endpoint, asked, given)))


def _model(endpoint: Endpoint, name: str) -> dict[str, Any]:
    return Model(
        id=name, object="model", created=endpoint.started, owned_by="ragweave"
    ).model_dump()


async def _safely(work: Awaitable[Any]) -> Any:
    """Await a run; what goes wrong in it is logged here, and said to the caller in general terms.

    Raises:
        ApiError: It failed.
    """
    try:
        return await work
    except StopAsyncIteration:
        raise
    except Exception as error:
        raise _told(error) from error


def _told(error: Exception) -> ApiError:
    """Return what a caller is told, so that clients try again where that may help, and only there."""
    if isinstance(error, PromptTooLongError | ContextOverflowError):
        _LOG.warning("a request was refused: %s", error)
        return ApiError(400, TOO_LONG, code="context_length_exceeded")
    _LOG.error("a request failed", exc_info=error)
    if isinstance(error, RunTimeoutError):
        said = "the answer took longer than the operator allows"
        return ApiError(504, said, x_should_retry="false")
    if is_transient(error) or status_of(error) is not None:
        return ApiError(502, "the model behind this endpoint failed: try again later")
    return ApiError(500, "the method failed: the operator's log says why")


TOO_LONG = "the question does not fit into the model's context: ask a shorter one"


async def _while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Await work, and cancel it where the caller goes away first.

    Servers do not cancel a request whose connection is closed: its model calls would go on.

    Raises:
        ApiError: The caller went away, so nobody reads this.
    """
    running, leaving = asyncio.create_task(work), asyncio.create_task(_gone(request))
    try:
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            return running.result()
        raise ApiError(499, "the caller went away")
    finally:
        running.cancel()
        leaving.cancel()
        await asyncio.gather(running, leaving, return_exceptions=True)


async def _gone(request: Request) -> None:
    """Return when the caller of a request that has been read closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _answered(
    endpoint: Endpoint, asked: ChatRequest, given: Mapping[str, Any]
) -> dict[str, Any]:
    async with endpoint.slot(asked.model):
        out = await _safely(endpoint.chats[asked.model].ainvoke(given))
    endpoint.count_tokens(asked.model, out)
    return completion(asked.model, out["messages"][-1], _usage(out))


def _usage(out: Mapping[str, Any]) -> CompletionUsage:
    """Return what an answer cost: the tokens of all its model calls."""
    given, made = out["usage"]["input_tokens"], out["usage"]["output_tokens"]
    return CompletionUsage(prompt_tokens=given, completion_tokens=made, total_tokens=given + made)


class _Stream(StreamingResponse):
    """A stream of events that ends what writes them, also where the caller leaves midway."""

    def __init__(self, first: str, events: AsyncGenerator[str, None]) -> None:
        """Send `first`, then `events`."""
        self._first, self._events = first, events
        super().__init__(self._body(), media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        async with aclosing(self._events):
            await super().__call__(scope, receive, send)

    async def _body(self) -> AsyncIterator[str]:
        yield self._first
        async for event in self._events:
            yield event


async def _streamed(
    endpoint: Endpoint, request: Request, asked: ChatRequest, given: Mapping[str, Any]
) -> StreamingResponse:
    """Return a stream whose first event is there, so that a failed run is an HTTP error.

    The method is done by then; from there on it is the response that notices a caller's leaving.
    """
    events = _events(endpoint, asked, given)

    async def next_event() -> str:
        return await anext(events)

    return _Stream(await _while_there(request, next_event()), events)


async def _events(
    endpoint: Endpoint, asked: ChatRequest, given: Mapping[str, Any]
) -> AsyncGenerator[str, None]:
    stream = Chunks(asked.model)
    out: Mapping[str, Any] = {}
    parts = endpoint.chats[asked.model].astream(given, stream_mode=["messages", "values"])
    try:
        async with endpoint.slot(asked.model), aclosing(cast("AsyncGenerator[Any, None]", parts)):
            role: dict[str, str] = {"role": "assistant"}
            while True:
                try:
                    mode, part = await _safely(anext(parts))
                except StopAsyncIteration:
                    break
                if mode == "values":
                    out = part
                elif part[0].text:
                    yield stream.event({**role, "content": part[0].text})
                    role = {}
    finally:
        endpoint.count_tokens(asked.model, out)  # also those of an answer whose reader has left
    yield stream.event(cited(out["messages"][-1]), end="stop")
    if asked.stream_options is not None and asked.stream_options.include_usage:
        yield stream.usage(_usage(out))
    yield "data: [DONE]\n\n"
