"""Methods behind OpenAI's chat completions and responses: for Open WebUI, the openai client, LangChain's `ChatOpenAI`.

    app = create_app({"concat_pf": build_chat("concat_pf", model=…, retriever=…)})

Each conversation is a model of the endpoint, named after its method. A caller chooses messages and one of these models;
`temperature` and the like are ignored. Citations are annotations of the message. The model `plain` is the answering
model itself, without a method, for the titles and tags that chat clients ask for.
"""

import asyncio
import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import quote as percent_encoded

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langgraph.store.base import BaseStore
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel, Field, ValidationError, field_validator

from ragweave.errors import PromptTooLongError, fault_of
from ragweave.graphs import MethodGraph
from ragweave.graphs.base import MAX_QUESTION
from ragweave.serving.guard import AccessLimits, ApiError, Guard, api_error, caller_id
from ragweave.state import Quote
from ragweave.tools.footnotes import UNSUPPORTED, cited_content, file_of
from ragweave.tools.knowledge.evidence import Evidence
from ragweave.tools.models import ChatModel
from ragweave.tools.models.messages import ending_of, tokens_of

PLAIN = "plain"
"""The endpoint's name for the answering model itself."""
MAX_HISTORY = 1_000_000
"""Maximum characters of a conversation."""
BEAT = 5.0
"""Seconds between the comments that a stream sends while a method runs."""


class Message(BaseModel):
    """A message of the conversation, or a tool's call or output, which has no role in responses."""

    role: str = ""
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[Any] | None = None
    """An agent's tool calls: the text beside them is not an answer."""


TextFormat = dict[Literal["type"], Literal["text"]]
"""The form of an answer: `{"type": "text"}`."""


class TextSettings(BaseModel):
    """A response's settings of its text."""

    format: TextFormat | None = None


class ModelRequest(BaseModel):
    """What requests of both APIs say; OpenAI's other settings are ignored."""

    model: str
    stream: bool | None = None
    tool_choice: Literal["none", "auto"] | None = None


class ChatRequest(ModelRequest):
    """A request for a chat completion."""

    messages: list[Message] = Field(min_length=1, max_length=10_000)
    stream_options: dict[str, Any] | None = None
    n: Literal[1] | None = None
    response_format: TextFormat | None = None


class ResponseRequest(ModelRequest):
    """A request for a response."""

    input: list[Message] = Field(min_length=1, max_length=10_000)
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    text: TextSettings | None = None
    background: Literal[False] | None = None
    conversation: None = None

    @field_validator("input", mode="before")
    @classmethod
    def _items(cls, given: Any) -> Any:
        return [{"role": "user", "content": given}] if isinstance(given, str) else given


_AnyRequest = TypeVar("_AnyRequest", bound=ModelRequest)


class Answer(NamedTuple):
    """A method's or the model's answer."""

    content: dict[str, Any]
    """Its text and citations, as `cited_content` has them."""
    finish_reason: str
    """`stop`, `length` or `content_filter`."""
    input_tokens: int
    output_tokens: int

    @property
    def text(self) -> str:
        """The answer without citations."""
        return str(self.content["text"])

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of all model calls, as chat completions report them."""
        return {
            "prompt_tokens": self.input_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.input_tokens + self.output_tokens,
        }


_REQUESTS = Counter("ragweave_requests", "Answers.", ("model", "status"))
_SECONDS = Histogram("ragweave_request_seconds", "Seconds of an answer.", ("model",))
_TOKENS = Counter("ragweave_tokens", "Tokens of model calls.", ("model", "kind"))
_IN_FLIGHT = Gauge("ragweave_in_flight", "Requests being answered.", multiprocess_mode="livesum")


def _metrics() -> bytes:
    """Return the metrics of this process, of all its keys; of all processes if they share a folder."""
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return generate_latest()
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


class Endpoint:
    """The conversations that are served, and their threads."""

    def __init__(
        self, chats: Mapping[str, MethodGraph], plain: ChatModel | None, evidence: Any, threads: BaseStore | None
    ) -> None:
        """Serve `chats` by their names, and `plain` as `PLAIN`; `evidence` places the quotes."""
        self._chats, self._plain, self._evidence, self.threads = chats, plain, evidence, threads
        self.names = [*chats, *([PLAIN] if plain is not None else [])]
        self.started = int(time.time())

    async def read(self, request: Request, kind: type[_AnyRequest]) -> _AnyRequest:
        """Read a request.

        Raises:
            ApiError: It is not of this kind, or asks for an unknown model or feature.
        """
        try:
            model_request = kind.model_validate_json(await request.body())
        except ValidationError as error:
            raise ApiError(400, fault_of(error, "the body")) from error
        if model_request.model not in self.names:
            raise self.unknown(model_request.model)
        return model_request

    def unknown(self, model: str) -> ApiError:
        """Return the error for a model that is not served."""
        return ApiError(404, f"there is no model {model[:80]!r}: {', '.join(self.names)}", code="model_not_found")

    async def answer(
        self, model: str, messages: Sequence[BaseMessage], keep: Callable[[Answer], None] | None = None
    ) -> Answer:
        """Return the answer, once `keep` has kept it.

        Raises:
            ApiError: The method failed; the log has the reason, the caller gets a general message.
        """
        async with self._counted(model):
            try:
                answer = await self._run(model, messages)
                if keep:
                    await asyncio.to_thread(keep, answer)
            except Exception as error:
                raise api_error(error) from error
        _TOKENS.labels(model, "input").inc(answer.input_tokens)
        _TOKENS.labels(model, "output").inc(answer.output_tokens)
        return answer

    async def _run(self, model: str, messages: Sequence[BaseMessage]) -> Answer:
        if model in self._chats:
            out = await self._chats[model].ainvoke({"messages": list(messages)}, output_keys=_STATE)
            dropped = any(note["event"] == "passages_dropped" for note in out.get("notes", ()))
            if dropped and out["status"] == "unknown" and not out["passages"]:
                raise PromptTooLongError("the question does not fit without any passage")
            (content,), tokens = cited_content(out, "openai"), out["usage"]
            if self._evidence:
                quotes = [quote for citation in out["citations"] for quote in citation["quotes"]]
                await asyncio.to_thread(self._add_places, content["annotations"], quotes)
            return Answer(content, _finish(out), tokens["input_tokens"], tokens["output_tokens"])
        assert self._plain is not None  # noqa: S101 - otherwise `read` would have refused the name
        message = await self._plain.ainvoke(list(messages))
        sent, received, _ = tokens_of(message, messages)
        ending = ending_of(message)
        finish = ending if ending in _FINISHES.values() else "stop"
        content = {"type": "output_text", "text": str(message.text), "annotations": []}
        return Answer(content, finish, sent, received)

    def _add_places(self, annotations: Sequence[dict[str, Any]], quotes: Sequence[Quote]) -> None:
        """Add to each quote where it stands in its file."""
        for annotation, quote in zip(annotations, quotes, strict=True):
            path = f"/v1/sources/{percent_encoded(quote['passage'], safe='')}"
            annotation["places"] = _named(self._evidence(quote))
            annotation["source"] = f"{path}?start={quote['start']}&end={quote['end']}"

    def keep(self, owner: str, name: str, turns: Sequence[Message], answer: Answer) -> None:
        """Keep a response with what was said before, as text."""
        texts = [*((turn.role, _text(turn)) for turn in turns), ("assistant", answer.text)]
        if self.threads is not None:
            spoken = {"turns": [{"role": role, "content": text} for role, text in texts]}
            self.threads.put(("responses", owner), name, spoken)

    async def thread(self, owner: str, name: str | None) -> list[Message]:
        """Return what was said up to a caller's response; nothing for None.

        Raises:
            ApiError: There is no such response, or none is kept.
        """
        if name is None:
            return []
        if self.threads is None:
            raise ApiError(400, "previous_response_id: no responses are kept here; send the earlier messages as input")
        item = await asyncio.to_thread(self.threads.get, ("responses", owner), name)
        if item is None:
            message = f"previous_response_id: there is no response {name[:80]!r}, or it was not kept"
            raise ApiError(400, message, code="previous_response_not_found")
        return [Message.model_validate(turn) for turn in item.value["turns"]]

    @asynccontextmanager
    async def _counted(self, model: str) -> AsyncIterator[None]:
        started, status = time.perf_counter(), "500"
        _IN_FLIGHT.inc()
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
            _IN_FLIGHT.dec()
            _REQUESTS.labels(model, status).inc()
            _SECONDS.labels(model).observe(time.perf_counter() - started)


_STATE = ["answer", "status", "passages", "citations", "candidates", "usage", "notes"]
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
    threads: BaseStore | None = None,
    permitted: str = "",
) -> FastAPI:
    """Return the app that serves conversations, each as a model of the endpoint.

    Paths: `/v1/chat/completions`, `/v1/responses`, `/v1/models`, `/health`, and `/metrics` in Prometheus' form; with
    `evidence`, also `/v1/sources/PASSAGE?start=0&end=80`, where a quote stands in its file, and `/v1/sources/PASSAGE/picture?…`, its
    page as PNG (`at=1`: the second page; `whole=true`: not cropped).

    Args:
        chats: Conversations by the name of their method, without a checkpointer.
        limits: Keys, origins, sizes; None: the defaults, without a key.
        plain: A chat model to serve without a method, under the name `plain`; None: no such model.
        evidence: As `KnowledgeBase.evidence`; annotations then have the places of their quotes. A picture shows the
            lines around a quote, too.
        threads: A store of LangGraph's that keeps what responses said, for `previous_response_id`. A caller goes on
            from the responses to its own key alone.
        permitted: What the conversations may see, in any words: responses that saw more or less are not gone on from.
    """
    endpoint = Endpoint(chats, plain, evidence, threads)
    app = FastAPI(title="ragweave", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, limits=limits or AccessLimits())

    @app.exception_handler(ApiError)
    async def refused(_request: Request, error: ApiError) -> JSONResponse:
        return JSONResponse(error.body, error.status, error.headers)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(_metrics(), media_type="text/plain; version=0.0.4")

    _add_completions(app, endpoint, permitted)
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


def _add_completions(app: FastAPI, endpoint: Endpoint, permitted: str) -> None:
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
        asked = await endpoint.read(request, ChatRequest)
        answering = endpoint.answer(asked.model, messages_of(_turns(asked.messages), "messages"))
        return await _reply(request, asked, _Completion(asked), asyncio.create_task(answering))

    @app.post("/v1/responses")
    async def respond(request: Request) -> Response:
        asked = await endpoint.read(request, ResponseRequest)
        owner = caller_id(f"{request.headers.get('authorization', '')} {permitted}".encode())
        turns = [*await endpoint.thread(owner, asked.previous_response_id), *_turns(asked.input)]
        system = [Message(role="system", content=asked.instructions)] if asked.instructions else []
        form = _Response(asked, kept=endpoint.threads is not None and asked.store is not False)
        keep = partial(endpoint.keep, owner, form.id, turns) if form.kept else None
        answering = endpoint.answer(asked.model, messages_of([*system, *turns], "input"), keep)
        return await _reply(request, asked, form, asyncio.create_task(answering))


def _model(endpoint: Endpoint, name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": endpoint.started, "owned_by": "ragweave"}


def _event(event: Mapping[str, Any]) -> str:
    # In ASCII: clients that read by line take U+2028 and U+0085 for line ends.
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"


class _Completion:
    """A chat completion, as JSON or as the events of a stream."""

    beginning: Sequence[str] = ()

    def __init__(self, asked: ChatRequest) -> None:
        self._asked = asked
        self._head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": asked.model}

    def json(self, answer: Answer) -> dict[str, Any]:
        message = {"role": "assistant", "content": answer.text, "refusal": None, **self._cited(answer.content)}
        choice = {"index": 0, "message": message, "finish_reason": answer.finish_reason, "logprobs": None}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": answer.usage}

    def events(self, answer: Answer) -> Iterator[str]:
        head = {**self._head, "object": "chat.completion.chunk"}
        first = {"role": "assistant", "content": answer.text}
        for delta, end in ((first, None), (self._cited(answer.content), answer.finish_reason)):
            yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})
        if (self._asked.stream_options or {}).get("include_usage"):
            yield _event({**head, "choices": [], "usage": answer.usage})
        yield "data: [DONE]\n\n"

    def failed(self, body: dict[str, Any]) -> str:
        return _event(body)

    def _cited(self, content: Mapping[str, Any]) -> dict[str, Any]:
        nested = [
            {"type": "url_citation", "url_citation": {name: note[name] for name in note if name != "type"}}
            for note in content["annotations"]
        ]
        fields = {"annotations": nested, UNSUPPORTED: content.get(UNSUPPORTED)}
        return {name: values for name, values in fields.items() if values}


class _Response:
    """A response whose output is one message, as JSON or as the events of a stream."""

    def __init__(self, asked: ResponseRequest, *, kept: bool) -> None:
        self.id, self.kept = f"resp_{uuid.uuid4().hex}", kept
        self._item, self._numbers = f"msg_{uuid.uuid4().hex}", count()
        given = asked.model_dump(include={"model", "instructions", "previous_response_id"})
        self._head = {**_NOT_OFFERED, **given, "id": self.id, "created_at": int(time.time()), "store": kept}

    @property
    def beginning(self) -> Iterator[str]:
        response = {**self._head, "status": "in_progress", "output": []}
        return (self._event(kind, response=response) for kind in ("created", "in_progress"))

    def json(self, answer: Answer) -> dict[str, Any]:
        reason = _INCOMPLETE.get(answer.finish_reason)
        status = "incomplete" if reason else "completed"
        usage = {
            "input_tokens": answer.input_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.usage["total_tokens"],
        }
        response = {**self._head, "status": status, "output": [self._message(status, answer.content)], "usage": usage}
        return {**response, "incomplete_details": {"reason": reason}} if reason else response

    def events(self, answer: Answer) -> Iterator[str]:
        response, text, at = self.json(answer), answer.text, {"output_index": 0}
        part = {"item_id": self._item, **at, "content_index": 0}
        yield self._event("output_item.added", **at, item=self._message("in_progress"))
        yield self._event("content_part.added", **part, part={**answer.content, "text": "", "annotations": []})
        yield self._event("output_text.delta", **part, delta=text, logprobs=[])
        for number, note in enumerate(answer.content["annotations"]):
            yield self._event("output_text.annotation.added", **part, annotation_index=number, annotation=note)
        yield self._event("output_text.done", **part, text=text, logprobs=[])
        yield self._event("content_part.done", **part, part=answer.content)
        yield self._event("output_item.done", **at, item=response["output"][0])
        yield self._event(response["status"], response=response)

    def failed(self, body: dict[str, Any]) -> str:
        # The documented event has the error's fields at the top; clients raise what stands under `error`.
        return _event({**body["error"], **body, "type": "error", "sequence_number": next(self._numbers)})

    def _message(self, status: str, *content: dict[str, Any]) -> dict[str, Any]:
        return {"id": self._item, "type": "message", "role": "assistant", "status": status, "content": content}

    def _event(self, kind: str, **fields: Any) -> str:
        return _event({"type": f"response.{kind}", "sequence_number": next(self._numbers), **fields})


_NOT_OFFERED = {"object": "response", "parallel_tool_calls": False, "tool_choice": "none", "tools": [], "metadata": {}}
"""What a response has that means nothing here; clients read it."""
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete, by the finish reason of a chat completion."""


async def _reply(
    request: Request, asked: ModelRequest, form: _Completion | _Response, work: asyncio.Task[Answer]
) -> Response:
    """Send what `work` answers; if the caller goes away, cancel it, because its model calls would go on."""
    if asked.stream:
        return StreamingResponse(_events(form, work), media_type="text/event-stream")
    async for _ in _beats(work):
        if await request.is_disconnected():
            work.cancel()
            raise ApiError(499, "the caller went away")
    return JSONResponse(form.json(await work))


async def _beats(work: asyncio.Task[Any]) -> AsyncIterator[None]:
    """Yield every few seconds until work is done."""
    while not work.done():
        yield
        await asyncio.wait({work}, timeout=BEAT)


async def _events(form: _Completion | _Response, work: asyncio.Task[Answer]) -> AsyncIterator[str]:
    """Yield comments while the method runs, then the answer, its citations and its usage."""
    try:
        for event in form.beginning:
            yield event
        async for _ in _beats(work):
            yield ": working\n\n"
        answer = await work
    except ApiError as error:
        yield form.failed(error.body)
        return
    finally:
        work.cancel()  # the caller may have left midway
    for event in form.events(answer):
        yield event


_KINDS = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage, "developer": SystemMessage}


def _turns(messages: Sequence[Message]) -> list[Message]:
    """Return what was said, without the calls and outputs of tools."""
    return [message for message in messages if message.role in _KINDS and not message.tool_calls]


def messages_of(turns: Sequence[Message], field: str) -> list[BaseMessage]:
    """Return a conversation's messages, without the pictures and files of earlier turns; `field` is named in errors.

    Raises:
        ApiError: The user's last message is not text, or an answer follows it, or the text is too long.
    """
    turns = [turn for turn in turns if turn.role != "assistant" or _text(turn).strip()]
    last = max((at for at, turn in enumerate(turns) if turn.role == "user"), default=-1)
    if last < 0 or any(turn.role == "assistant" for turn in turns[last:]):
        raise ApiError(400, f"{field}: the last one must be a question from the user")
    question = turns.pop(last)  # what the system says after it goes before it
    parts = question.content if isinstance(question.content, list) else []
    if other := next((part.get("type") for part in parts if part.get("type") not in _TEXTS), None):
        raise ApiError(400, f"{field}: a question may hold only text, not {other}")
    if not _text(question).strip():
        raise ApiError(400, f"{field}: the question is empty")
    said = [(_KINDS[turn.role], _text(turn)) for turn in [*turns, question]]
    for what, size, limit in (
        ("question", len(said[-1][1]), MAX_QUESTION),
        ("conversation", sum(len(text) for _, text in said), MAX_HISTORY),
    ):
        if size > limit:
            message = f"{field}: the {what} has {size} characters; at most {limit} are allowed"
            raise ApiError(400, message, code="context_length_exceeded")
    return [kind(text) for kind, text in said]


_TEXTS = ("text", "input_text")
"""The types of a question's parts in chat completions and in responses."""


def _text(message: Message) -> str:
    content = message.content
    parts: list[dict[str, Any]] = content if isinstance(content, list) else [{"text": content}]
    return "\n".join(text for part in parts if isinstance(text := part.get("text"), str))
