"""A real OpenAI-protocol server on loopback, scripted reply by reply, HTTP errors included.

    with OpenAIServer(["Paris", HttpFault(429), Reply("Rome", usage=None)]) as server:
        model = ChatOpenAI(model="m", base_url=server.base_url, api_key="none", max_retries=0)
        model.invoke("…")
        server.requests[0].body["messages"]

Answers `POST /v1/chat/completions` (streamed where the request says so) and `GET /v1/models`.
Tests that use it need the mark `loopback`.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Usage = tuple[int, int]


@dataclass(frozen=True)
class Reply:
    """A model's reply."""

    text: str
    usage: Usage | str | None = "words"
    """Input and output tokens; "words" counts words; None: the server reports no usage."""
    delay: float = 0.0
    """Seconds before the reply starts."""
    logprob: float = -0.1
    """Log-probability of every token, where the request asks for them."""
    finish_reason: str = "stop"


@dataclass(frozen=True)
class Stream:
    """A streamed reply, chunk by chunk."""

    chunks: Sequence[Mapping[str, Any]]
    """Each has `delta` and `finish_reason`, and may have a `usage`."""


@dataclass(frozen=True)
class HttpFault:
    """An HTTP error with OpenAI's error body."""

    status: int
    retry_after: float | None = None
    """Seconds, sent as the `Retry-After` header; None: no such header."""
    message: str = "scripted fault"
    code: str | None = None


Answer = str | Reply | Stream | HttpFault
Script = Sequence[Answer] | Callable[[dict[str, Any]], Answer]


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


@dataclass
class OpenAIServer:
    """The server; a context manager.

    `script` is a list of answers, used in order with the last one repeated, or a function of the
    request's body. With `key`, a request without that key gets 401.
    """

    script: Script = ("Unknown",)
    key: str | None = None
    model: str = "scripted"
    requests: list[Request] = field(default_factory=list)
    """Chat requests in order of arrival, failed ones included."""

    def __enter__(self) -> OpenAIServer:
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def base_url(self) -> str:
        """The address to give to a client."""
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}/v1"

    @property
    def count(self) -> int:
        """The number of chat requests, failed ones included."""
        return len(self.requests)

    def take(self, request: Request) -> Answer:
        """Record a request and return its scripted answer."""
        with self._lock:
            self.requests.append(request)
            at = len(self.requests) - 1
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            return HttpFault(401, message="Incorrect API key provided", code="invalid_api_key")
        if callable(self.script):
            return self.script(request.body)
        return self.script[min(at, len(self.script) - 1)]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that gave up is part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    owner: OpenAIServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._json(200, {"object": "list", "data": [{"id": self.owner.model, "object": "model"}]})
        else:
            self._fault(HttpFault(404, message=f"no route {self.path}"))

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._fault(HttpFault(404, message=f"no route {self.path}"))
            return
        body = json.loads(raw)
        headers = {key.lower(): value for key, value in self.headers.items()}
        self._answer(self.owner.take(Request(self.path, headers, body)), body)

    def _answer(self, answer: Answer, body: dict[str, Any]) -> None:
        match answer:
            case HttpFault():
                self._fault(answer)
            case Stream():
                self._events(_given_chunks(answer, body))
            case str() | Reply():
                reply = Reply(answer) if isinstance(answer, str) else answer
                time.sleep(reply.delay)
                if body.get("stream"):
                    self._events(_chunks(reply, body))
                else:
                    self._json(200, _completion(reply, body))

    def _fault(self, fault: HttpFault) -> None:
        error = {"message": fault.message, "type": "scripted", "param": None, "code": fault.code}
        wait = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        self._json(fault.status, {"error": error}, wait)

    def _json(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {
            "Content-Type": "application/json",
            "Content-Length": str(len(raw)),
            "Connection": "close",
            **(headers or {}),
        }.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(raw)
        self.close_connection = True

    def _events(self, chunks: Iterable[object]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for chunk in chunks:
            self._chunk(f"data: {json.dumps(chunk)}\n\n")
        self._chunk("data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True

    def _chunk(self, text: str) -> None:
        raw = text.encode()
        self.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
        self.wfile.flush()


def _tokens(text: str) -> list[str]:
    return re.findall(r"\s*\S+", text) or [text]


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": kind, "created": 0, "model": body["model"]}


def _usage(reply: Reply, body: Mapping[str, Any]) -> dict[str, int] | None:
    if reply.usage is None:
        return None
    if isinstance(reply.usage, str):
        read = sum(len(str(message.get("content") or "").split()) for message in body["messages"])
        written = len(reply.text.split())
    else:
        read, written = reply.usage
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _logprobs(reply: Reply, tokens: Sequence[str], body: Mapping[str, Any]) -> dict[str, Any]:
    if not body.get("logprobs"):
        return {"logprobs": None}
    places = [{"token": token, "logprob": reply.logprob, "bytes": list(token.encode())} for token in tokens]
    content = [{**place, "top_logprobs": [place] * bool(body.get("top_logprobs"))} for place in places]
    return {"logprobs": {"content": content, "refusal": None}}


def _completion(reply: Reply, body: Mapping[str, Any]) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": reply.text},
        "finish_reason": reply.finish_reason,
        **_logprobs(reply, _tokens(reply.text), body),
    }
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(reply, body)}


def _given_chunks(stream: Stream, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for chunk in stream.chunks:
        choice = {"index": 0, "delta": chunk.get("delta", {}), "finish_reason": chunk.get("finish_reason")}
        usage = {"usage": chunk["usage"]} if "usage" in chunk else {}
        yield {**_head(body, "chat.completion.chunk"), "choices": [choice], **usage}


def _chunks(reply: Reply, body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    head = _head(body, "chat.completion.chunk")
    yield {**head, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    for token in _tokens(reply.text):
        choice = {"index": 0, "delta": {"content": token}, "finish_reason": None}
        yield {**head, "choices": [{**choice, **_logprobs(reply, [token], body)}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": reply.finish_reason}]}
    usage = _usage(reply, body)
    if usage and (body.get("stream_options") or {}).get("include_usage"):
        yield {**head, "choices": [], "usage": usage}
