"""How a reply ended, by the providers' own clients against a server on loopback that speaks their protocols.

The words of clients that `ragweave[test]` does not bring (Gemini's, Bedrock's, Cohere's) are in `test_messages.py`.
"""

from __future__ import annotations

import gc
import json
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from operator import add
from typing import Any, NamedTuple

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage

from ragweave.tools.models.calls import code_of
from ragweave.tools.models.messages import ending_of, text_of

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # clients that leave sockets open
]

Events = Sequence[tuple[str, Any]]
"""Server-sent events: name and data; a name of "" is left out."""


class Client(NamedTuple):
    """A provider's client, and how its server ends the reply `Ada` with a word of its own."""

    module: str
    name: str
    settings: Callable[[str], dict[str, Any]]
    """From the server's address to the client's arguments."""
    reply: Callable[[str], dict[str, Any]]
    streamed: Callable[[str], bytes]
    """The same as the body of a stream."""
    ends: Mapping[str, str]
    """From the provider's words to ours."""


def keyed(url: str) -> dict[str, Any]:
    return {"base_url": url, "api_key": "none", "model": "m", "max_retries": 0}


def events(items: Events) -> bytes:
    """Write server-sent events."""
    lines = (f"event: {name}\n" * bool(name) + f"data: {json.dumps(data)}\n\n" for name, data in items)
    return "".join(lines).encode()


# -- OpenAI's protocol, which most speak


def completion(word: str) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Ada"}, "finish_reason": word}
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


def chunks(word: str) -> bytes:
    head = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    parts = [({"role": "assistant", "content": "A"}, None), ({"content": "da"}, None), ({}, word)]
    items = [("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}) for delta, end in parts]
    return events(items) + b"data: [DONE]\n\n"


STOP = {"stop": "stop", "length": "length"}


def of_openai(module: str, name: str, more: Mapping[str, str], settings: Any = keyed) -> Client:
    return Client(module, name, settings, completion, chunks, {**STOP, **more})


# -- OpenAI's Responses API

_WHY = {"max_output_tokens": "incomplete", "content_filter": "incomplete"}


def response(word: str) -> dict[str, Any]:
    refused = word == "refusal"
    content = (
        {"type": "refusal", "refusal": "No."} if refused else {"type": "output_text", "text": "Ada", "annotations": []}
    )
    status = "completed" if refused else _WHY.get(word, word)
    item = {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [content]}
    usage = {"input_tokens": 9, "output_tokens": 1, "total_tokens": 10}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    return {
        "id": "r", "object": "response", "created_at": 1, "model": "m", "status": status, "output": [item],
        "incomplete_details": {"reason": word} if word in _WHY else None, "usage": {**usage, **details},
        "parallel_tool_calls": False, "tools": [], "tool_choice": "auto",
    }  # fmt: skip


def response_events(word: str) -> bytes:
    whole = response(word)
    (item,) = whole["output"]
    (content,) = item["content"]
    kind = "refusal" if content["type"] == "refusal" else "output_text"
    at = {"item_id": "i", "output_index": 0, "content_index": 0}
    empty = {**content, "refusal" if kind == "refusal" else "text": ""}
    delta = {"delta": content.get("text") or content["refusal"], "logprobs": []}
    parts: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "part": empty},
        {"type": f"response.{kind}.delta", **at, **delta},
        {**at, **content, "type": f"response.{kind}.done"},
        {"type": f"response.{whole['status']}", "response": whole},
    ]
    return events([(part["type"], {**part, "sequence_number": number}) for number, part in enumerate(parts)])


# -- Anthropic


def anthropic(word: str) -> dict[str, Any]:
    return {
        "id": "1", "type": "message", "role": "assistant", "model": "m", "content": [{"type": "text", "text": "Ada"}],
        "stop_reason": word, "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 1},
    }  # fmt: skip


def anthropic_events(word: str) -> bytes:
    start = {**anthropic(word), "content": [], "stop_reason": None}
    return events(
        (part["type"], part)
        for part in (
            {"type": "message_start", "message": start},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Ada"}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": word, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        )
    )  # type: ignore[arg-type]


# -- Ollama


def ollama(word: str) -> bytes:
    head = {"model": "m", "created_at": "2026-01-01T00:00:00Z"}
    counts = {"prompt_eval_count": 9, "eval_count": 1, "total_duration": 1, "eval_duration": 1}
    parts = [
        {**head, "message": {"role": "assistant", "content": "Ada"}, "done": False},
        {**head, "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": word, **counts},
    ]
    return "".join(f"{json.dumps(part)}\n" for part in parts).encode()


CLIENTS = {
    "openai": of_openai("langchain_openai", "ChatOpenAI", {"content_filter": "content_filter", "error": "failed"}),
    "openai responses": Client(
        "langchain_openai", "ChatOpenAI", lambda url: {**keyed(url), "use_responses_api": True}, response, response_events,
        {"completed": "stop", "max_output_tokens": "length", "content_filter": "content_filter", "refusal": "content_filter"},
    ),
    "azure": of_openai(
        "langchain_openai", "AzureChatOpenAI", {},
        lambda url: {"azure_endpoint": url, "api_key": "none", "api_version": "2024-10-21", "azure_deployment": "m", "max_retries": 0},
    ),
    "anthropic": Client(
        "langchain_anthropic", "ChatAnthropic", keyed, anthropic, anthropic_events,
        {"end_turn": "stop", "max_tokens": "length", "model_context_window_exceeded": "length", "refusal": "content_filter"},
    ),
    "mistral": of_openai("langchain_mistralai", "ChatMistralAI", {"model_length": "length", "error": "failed"}),
    "ollama": Client(
        "langchain_ollama", "ChatOllama", lambda url: {"base_url": url, "model": "m"}, lambda _: {}, ollama,
        STOP,
    ),
    "groq": of_openai("langchain_groq", "ChatGroq", {}),
    "deepseek": of_openai(
        "langchain_deepseek", "ChatDeepSeek",
        {"content_filter": "content_filter", "insufficient_system_resource": "failed"},
        lambda url: {"api_base": url, "api_key": "none", "model": "m", "max_retries": 0},
    ),
    "xai": of_openai("langchain_xai", "ChatXAI", {}, lambda url: {**keyed(url), "xai_api_key": "none"}),
    "together": of_openai("langchain_together", "ChatTogether", {"eos": "stop"}),
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _clients_end_here() -> Iterator[None]:
    """Collect clients that leave their sockets open before another module's tests are blamed for them."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@contextmanager
def serving(client: Client) -> Iterator[str]:
    """Yield the address of a server that ends its reply with the word that the question is."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            word = next(word for word in client.ends if f"End by {word}." in asked)
            if "stream" in self.path.lower() or json.loads(asked).get("stream"):
                raw, kind = client.streamed(word), "text/event-stream"
            else:
                raw, kind = json.dumps(client.reply(word)).encode(), "application/json"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_address[1]}"
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


@pytest.mark.parametrize("name", CLIENTS)
def test_how_a_reply_ended(name: str) -> None:
    client = CLIENTS[name]
    made = getattr(pytest.importorskip(client.module), client.name)
    with serving(client) as url:
        model: BaseChatModel = made(**client.settings(url))
        at_once = {word: model.invoke(f"End by {word}.") for word in client.ends}
        streamed = {word: joined(model.stream(f"End by {word}.")) for word in client.ends}
    for messages in (at_once, streamed):
        assert {word: ending_of(message) for word, message in messages.items()} == client.ends
        spoken = {word: text_of(message) for word, message in messages.items() if word != "refusal"}
        assert set(spoken.values()) == {"Ada"}


def test_azures_client_raises_where_a_filter_cut_the_reply() -> None:
    langchain_openai = pytest.importorskip("langchain_openai")
    client = CLIENTS["azure"]._replace(ends={"content_filter": "content_filter"})
    with serving(client) as url:
        model = langchain_openai.AzureChatOpenAI(**client.settings(url))
        with pytest.raises(ValueError, match="content filter") as caught:
            model.invoke("End by content_filter.")
    assert code_of(caught.value) == "content_filter"


def joined(chunks: Iterable[AIMessageChunk]) -> BaseMessage:
    """Return the message that the chunks of a stream make."""
    return reduce(add, chunks)
