"""Methods behind OpenAI's chat completions: for Open WebUI, the openai client, LangChain's `ChatOpenAI`.

    app = create_app({"concat_pf": build_chat("concat_pf", model=…, retriever=…)})

Each conversation is a model of the endpoint, named after its method. A caller chooses messages and one of these models;
`temperature` and the like are ignored. Citations are annotations of the message. The model `plain` is the answering
model itself, without a method, for the titles and tags that chat clients ask for.
"""

import asyncio
import json
import logging
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from math import ceil
from typing import Any, NamedTuple
from urllib.parse import quote as percent_encoded

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel, Field, ValidationError

from ragweave.errors import BrokenReplyError, PromptTooLongError, RunTimeoutError
from ragweave.graphs import MethodGraph
from ragweave.graphs.base import MAX_QUESTION
from ragweave.serving.guard import AccessLimits, ApiError, Guard
from ragweave.tools.footnotes import UNSUPPORTED, file_of
from ragweave.tools.knowledge.evidence import Evidence
from ragweave.tools.models import ChatModel, is_transient, status_of
from ragweave.tools.models.calls import code_of, is_overflow, retry_after
from ragweave.tools.models.messages import ending_of

_LOG = logging.getLogger("ragweave.serving")
PLAIN = "plain"
"""The endpoint's name for the answering model itself."""
MAX_HISTORY = 1_000_000
"""Maximum characters of a conversation."""
BEAT = 5.0
"""Seconds between the comments that a stream sends while a method runs."""


class Message(BaseModel):
    """A message of the conversation."""

    role: str
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[Any] | None = None
    """An agent's tool calls: the text beside them is not an answer."""


class ChatRequest(BaseModel):
    """A caller's request; OpenAI's other settings are ignored."""

    model: str
    messages: list[Message] = Field(min_length=1, max_length=10_000)
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    tool_choice: Any = None


class Answer(NamedTuple):
    """A method's or the model's answer."""

    message: AIMessage
    finish_reason: str
    """`stop`, `length` or `content_filter`."""
    input_tokens: int
    output_tokens: int

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of all model calls, as OpenAI reports them."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }


class Endpoint:
    """The conversations that are served, and their metrics."""

    def __init__(self, chats: Mapping[str, MethodGraph], plain: ChatModel | None, evidence: Any = None) -> None:
        """Serve `chats` by their names, and `plain` as `PLAIN`; `evidence` places the quotes."""
        self._chats, self._plain, self._evidence = chats, plain, evidence
        self.names = [*chats, *([PLAIN] if plain is not None else [])]
        self.started = int(time.time())
        self._registry = registry = CollectorRegistry()
        self._requests = Counter("ragweave_requests", "Completions.", ("model", "status"), registry=registry)
        self._seconds = Histogram("ragweave_request_seconds", "Seconds of an answer.", ("model",), registry=registry)
        self._tokens = Counter("ragweave_tokens", "Tokens of model calls.", ("model", "kind"), registry=registry)
        self._in_flight = Gauge(
            "ragweave_in_flight", "Requests being answered.", registry=registry, multiprocess_mode="livesum"
        )

    def metrics(self) -> bytes:
        """Return the metrics in Prometheus' form; of all processes if they share `PROMETHEUS_MULTIPROC_DIR`."""
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self._registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)

    async def read(self, request: Request) -> ChatRequest:
        """Read a request.

        Raises:
            ApiError: The request is not a chat completion, or asks for an unknown model or feature.
        """
        try:
            chat_request = ChatRequest.model_validate_json(await request.body())
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            raise ApiError(400, f"{where}: {first['msg']}") from error
        if chat_request.model not in self.names:
            raise self.unknown(chat_request.model)
        if chat_request.n not in (None, 1):
            raise ApiError(400, "n: a question has one answer; leave n out, or set it to 1")
        if (chat_request.response_format or {}).get("type", "text") != "text":
            raise ApiError(400, "response_format: answers are text; leave response_format out")
        if chat_request.tool_choice not in (None, "none", "auto"):
            raise ApiError(400, "tool_choice: this endpoint calls no tools; leave tool_choice out, or set it to none")
        return chat_request

    def unknown(self, model: str) -> ApiError:
        """Return the error for a model that is not served."""
        return ApiError(404, f"there is no model {model[:80]!r}: {', '.join(self.names)}", code="model_not_found")

    async def answer(self, model: str, messages: Sequence[BaseMessage]) -> Answer:
        """Return the answer.

        Raises:
            ApiError: The method failed; the log has the reason, the caller gets a general message.
        """
        async with self._counted(model):
            try:
                answer = await self._run(model, messages)
            except Exception as error:
                raise _api_error(error) from error
        self._tokens.labels(model, "input").inc(answer.input_tokens)
        self._tokens.labels(model, "output").inc(answer.output_tokens)
        return answer

    async def _run(self, model: str, messages: Sequence[BaseMessage]) -> Answer:
        if model in self._chats:
            out = await self._chats[model].ainvoke({"messages": list(messages)}, output_keys=_STATE)
            dropped = any(note["event"] == "passages_dropped" for note in out.get("notes", ()))
            if dropped and out["status"] == "unknown" and not out["passages"]:
                raise PromptTooLongError("the question does not fit without any passage")
            tokens = out["usage"]
            message = await asyncio.to_thread(self._placed, out["messages"][-1])
            return Answer(message, _finish(out), tokens["input_tokens"], tokens["output_tokens"])
        assert self._plain is not None  # noqa: S101 - otherwise `read` would have refused the name
        message = await self._plain.ainvoke(list(messages))
        usage = message.usage_metadata or {"input_tokens": 0, "output_tokens": 0}
        ending = ending_of(message)
        finish = ending if ending in _FINISHES.values() else "stop"
        return Answer(AIMessage(str(message.text)), finish, usage["input_tokens"], usage["output_tokens"])

    def _placed(self, message: AIMessage) -> AIMessage:
        """Add to each quote where it stands in its file."""
        for note in _notes(message) if self._evidence else ():
            if note["type"] == "citation":
                note["extras"]["places"] = _named(self._evidence(note["extras"]))
        return message

    @asynccontextmanager
    async def _counted(self, model: str) -> AsyncIterator[None]:
        started, status = time.perf_counter(), "500"
        self._in_flight.inc()
        try:
            yield
            status = "200"
        except ApiError as error:
            status = str(error.status)
            raise
        except asyncio.CancelledError:  # the caller has gone away
            status = "499"
            raise
        finally:
            self._in_flight.dec()
            self._requests.labels(model, status).inc()
            self._seconds.labels(model).observe(time.perf_counter() - started)


_STATE = ["messages", "answer", "status", "passages", "candidates", "usage", "notes"]
"""The keys read from a conversation's state: its output lacks the notes."""
_FINISHES = {"reply_limit_reached": "length", "content_filtered": "content_filter"}
"""OpenAI's finish reasons by the notes of a method."""


def _finish(state: Mapping[str, Any]) -> str:
    """Return how the reply ended that the answer was read from; a step before it may have been cut without harm."""
    candidates = state["candidates"].values()
    nodes = {candidate["pool"] for candidate in candidates if candidate["answer"] == state["answer"]}
    events = [note["event"] for note in state.get("notes", ()) if note["node"] in nodes]
    return next((_FINISHES[event] for event in events if event in _FINISHES), "stop")


def create_app(
    chats: Mapping[str, MethodGraph],
    limits: AccessLimits | None = None,
    plain: ChatModel | None = None,
    evidence: Callable[[Any], Evidence] | None = None,
) -> FastAPI:
    """Return the app that serves conversations, each as a model of the endpoint.

    Paths: `/v1/chat/completions`, `/v1/models`, `/health`, and `/metrics` in Prometheus' form; with `evidence`, also
    `/v1/sources/PASSAGE?start=0&end=80`, where a quote stands in its file, and `/v1/sources/PASSAGE/picture?…`, its
    page as PNG (`at=1`: the second page; `whole=true`: not cropped).

    Args:
        chats: Conversations by the name of their method, without a checkpointer.
        limits: Keys, origins, sizes; None: the defaults, without a key.
        plain: A chat model to serve without a method, under the name `plain`; None: no such model.
        evidence: As `KnowledgeBase.evidence`; annotations then have the places of their quotes. A picture shows the
            lines around a quote, too.
    """
    endpoint = Endpoint(chats, plain, evidence)
    app = FastAPI(title="ragweave", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, limits=limits or AccessLimits())

    @app.exception_handler(ApiError)
    async def refused(_request: Request, error: ApiError) -> JSONResponse:
        return JSONResponse(error.body, error.status, error.headers)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(endpoint.metrics(), media_type="text/plain; version=0.0.4")

    _add_completions(app, endpoint)
    if evidence:
        _add_sources(app, evidence)
    return app


def _add_sources(app: FastAPI, evidence: Callable[[Any], Evidence]) -> None:
    """Add the paths of quotes in their files. A caller names a passage, never a file."""

    async def shown(passage: str, start: int, end: int) -> Evidence:
        places = await asyncio.to_thread(evidence, {"passage": passage, "start": start, "end": end})
        if not places:
            raise ApiError(404, "there is no such quote: passage, start and end are those of an annotation")
        return places

    @app.get("/v1/sources/{passage:path}/picture")
    async def picture(passage: str, start: int, end: int, at: int = 0, whole: bool = False) -> Response:
        places = await shown(passage, start, end)
        page = await asyncio.to_thread(places.picture, at, whole=whole) if 0 <= at < len(places) else None
        if page is None:
            raise ApiError(404, places[0]["note"] or "there is no such page")
        return Response(page, media_type="image/png", headers={"Cache-Control": "private, max-age=600"})

    @app.get("/v1/sources/{passage:path}")
    async def source(passage: str, start: int, end: int) -> dict[str, Any]:
        return {"object": "source", "places": _named(await shown(passage, start, end))}


def _named(evidence: Evidence) -> list[dict[str, Any]]:
    """Return places without folders of this machine."""
    return [
        {**place, "file": file_of(place["file"]), "link": place["link"] * place["link"].startswith("http")}
        for place in evidence
    ]


def _add_completions(app: FastAPI, endpoint: Endpoint) -> None:
    """Add the paths of OpenAI's protocol."""

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [_model(endpoint, name) for name in endpoint.names]}

    @app.get("/v1/models/{name}")
    async def model(name: str) -> dict[str, Any]:
        if name not in endpoint.names:
            raise endpoint.unknown(name)
        return _model(endpoint, name)

    @app.post("/v1/chat/completions")
    async def complete(request: Request) -> Response:
        chat_request = await endpoint.read(request)
        work = asyncio.create_task(endpoint.answer(chat_request.model, messages_of(chat_request.messages)))
        if chat_request.stream:
            return StreamingResponse(_events(chat_request, work), media_type="text/event-stream")
        async for _ in _beats(work):
            if await request.is_disconnected():
                work.cancel()  # otherwise its model calls would go on
                raise ApiError(499, "the caller went away")
        answer = await work
        text = answer.message.text
        reply = {"role": "assistant", "content": text, "refusal": None, **annotated(answer.message)}
        choice = {"index": 0, "message": reply, "finish_reason": answer.finish_reason, "logprobs": None}
        return JSONResponse(_object(chat_request, "chat.completion", choices=[choice], usage=answer.usage))


def _model(endpoint: Endpoint, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": endpoint.started, "owned_by": "ragweave"}


def _object(chat_request: ChatRequest, kind: str, **more: Any) -> dict[str, Any]:
    fields = {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": kind,
        "created": int(time.time()),
        "model": chat_request.model,
    }
    return {**fields, **more}


async def _beats(work: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Yield every few seconds until work is done."""
    while not work.done():
        yield
        await asyncio.wait({work}, timeout=BEAT)


async def _events(chat_request: ChatRequest, work: asyncio.Task[Answer]) -> AsyncIterator[str]:
    """Yield comments while the method runs, then the answer, its citations and its usage."""
    try:
        async for _ in _beats(work):
            yield ": working\n\n"
        answer = await work
    except ApiError as error:
        yield f"data: {json.dumps(error.body)}\n\n"
        return
    finally:
        work.cancel()  # the caller may have left midway
    head = _object(chat_request, "chat.completion.chunk")
    message = answer.message
    deltas = [({"role": "assistant", "content": message.text}, None), (annotated(message), answer.finish_reason)]
    for delta, end in deltas:
        # In ASCII: clients that read by line take U+2028 and U+0085 for line ends.
        yield f"data: {json.dumps({**head, 'choices': [{'index': 0, 'delta': delta, 'finish_reason': end}]})}\n\n"
    if (chat_request.stream_options or {}).get("include_usage"):
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': answer.usage})}\n\n"
    yield "data: [DONE]\n\n"


def _api_error(error: Exception) -> ApiError:
    """Return the error for the caller, with a status on which clients retry only if a retry may help."""
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
        return ApiError(400, "the model's server refuses what the question or its passages say", code=code)
    if status_of(error) != 429:
        return None
    if code == "insufficient_quota":
        return ApiError(429, "the quota of the model behind this endpoint is spent", code=code, **_FINAL)
    wait = str(ceil(retry_after(error) or 1))
    return ApiError(
        429, "the rate limit of the model behind this endpoint is reached", code="rate_limit_exceeded", retry_after=wait
    )


_KINDS = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage, "developer": SystemMessage}


def messages_of(messages: Sequence[Message]) -> list[BaseMessage]:
    """Return a request's messages, without tool messages, and without the pictures and files of earlier turns.

    Raises:
        ApiError: The user's last message is not text, or an answer follows it, or the text is too long.
    """
    turns = [turn for turn in messages if turn.role in _KINDS and not turn.tool_calls]
    last = max((at for at, turn in enumerate(turns) if turn.role == "user"), default=-1)
    if last < 0 or any(turn.role == "assistant" and _text(turn).strip() for turn in turns[last:]):
        raise ApiError(400, "messages: the last one must be a question from the user")
    content = turns[last].content
    parts = content if isinstance(content, list) else []
    if other := next((part.get("type") for part in parts if part.get("type") != "text"), None):
        raise ApiError(400, f"messages: a question may hold only text, not {other}")
    if not _text(turns[last]).strip():
        raise ApiError(400, "messages: the question is empty")
    texts = [_text(turn) for turn in turns]
    for what, size, limit in (
        ("question", len(texts[last]), MAX_QUESTION),
        ("conversation", sum(map(len, texts)), MAX_HISTORY),
    ):
        if size > limit:
            message = f"messages: the {what} has {size} characters; at most {limit} are allowed"
            raise ApiError(400, message, code="context_length_exceeded")
    return [_KINDS[turn.role](text) for turn, text in zip(turns, texts, strict=True)]


def _text(message: Message) -> str:
    content = message.content
    parts: list[dict[str, Any]] = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))


def annotated(message: AIMessage) -> dict[str, Any]:
    """Return a message's citations in OpenAI's form, and the spans that no passage supports."""
    notes = _notes(message)
    cited = [_annotation(note) for note in notes if note["type"] == "citation"]
    spans = [note["value"] for note in notes if note["type"] == "non_standard_annotation"]
    bare = [
        {name: span[name] for name in ("start_index", "end_index")} for span in spans if span["kind"] == UNSUPPORTED
    ]
    return {name: values for name, values in (("annotations", cited), (UNSUPPORTED, bare)) if values}


def _notes(message: AIMessage) -> list[Any]:
    return [
        note for block in message.content_blocks if block["type"] == "text" for note in block.get("annotations", [])
    ]


def _annotation(note: Mapping[str, Any]) -> dict[str, Any]:
    extras = note["extras"]
    cited = {
        "url": note.get("url") or f"urn:ragweave:passage:{extras['passage']}",
        "title": note["title"],
        "start_index": note["start_index"],
        "end_index": note["end_index"],
        "cited_text": note["cited_text"],
        "file": extras["file"],
        "page": extras["page"],
        "meaning": extras["meaning"],
    }
    if "places" in extras:
        path = f"/v1/sources/{percent_encoded(extras['passage'], safe='')}"
        cited |= {"places": extras["places"], "source": f"{path}?start={extras['start']}&end={extras['end']}"}
    return {"type": "url_citation", "url_citation": cited}
