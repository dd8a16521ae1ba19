"""Methods behind OpenAI's protocol: the real clients, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.exceptions import ContextOverflowError
from langchain_core.globals import set_llm_cache
from langchain_openai import ChatOpenAI
from openai import (
    AsyncOpenAI,
    AuthenticationError,
    BadRequestError,
    InternalServerError,
    NotFoundError,
    RateLimitError,
)
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents

from ragweave import build_chat
from ragweave.errors import PromptTooLongError, UsageError
from ragweave.serving.openai_api import Limits, create_app
from ragweave.serving.openai_forms import Chunks, Message, messages_of

TEXTS = (
    "The bridge at Alden was opened in 1932. It was painted grey.",
    "Ada Brenner built the bridge at Alden. She studied in Norhaven.",
)
QUESTION: Any = [{"role": "user", "content": "Who built the bridge at Alden?"}]
FOLLOW_UP: Any = [
    *QUESTION,
    {"role": "assistant", "content": "Ada Brenner."},
    {"role": "user", "content": [{"type": "text", "text": "And when was it opened?"}]},
]
RESTATED = "When was the bridge at Alden opened?"
ANSWER = "Ada Brenner built the bridge. Elephants danced in Patagonia."


def chat(replies: Any = (ANSWER,), **more: Any) -> Any:
    model = ScriptedChat(replies=replies, usage=(10, 2), **more)
    retriever = ListRetriever(documents=documents(*TEXTS))
    return build_chat("concat", model=model, retriever=retriever, answer_type="long")


def transport(served: Any = None, **limits: Any) -> httpx.AsyncClient:
    app = create_app({"concat": served or chat()}, Limits(**limits))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def client(served: Any = None, key: str = "none", **limits: Any) -> AsyncOpenAI:
    return AsyncOpenAI(
        base_url="http://test/v1",
        api_key=key,
        max_retries=0,
        http_client=transport(served, **limits),
    )


async def test_the_openai_client_gets_an_answer_with_citations() -> None:
    done = await client().chat.completions.create(
        model="concat", messages=QUESTION, temperature=0.3, user="me"
    )
    (choice,) = done.choices
    assert choice.message.content == ANSWER
    assert choice.finish_reason == "stop"
    (note,) = choice.message.annotations or ()
    cited = note.url_citation
    assert ANSWER[cited.start_index : cited.end_index] == "Ada Brenner built the bridge."
    assert cited.model_extra == {"cited_text": "Ada Brenner built the bridge at Alden."}
    assert cited.url.startswith("urn:ragweave:passage:")
    (span,) = (choice.message.model_extra or {})["unsupported"]
    assert ANSWER[span["start_index"] : span["end_index"]] == "Elephants danced in Patagonia."
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (10, 2)


async def test_a_stream_has_words_then_citations_then_usage() -> None:
    stream = await client().chat.completions.create(
        model="concat", messages=QUESTION, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    words = [one.choices[0].delta.content for one in chunks if one.choices]
    assert "".join(word or "" for word in words) == ANSWER
    assert len(words) > 4
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [one.choices[0].finish_reason for one in chunks if one.choices][-1] == "stop"
    last = next(
        one.choices[0].delta for one in chunks if one.choices and one.choices[0].finish_reason
    )
    assert (last.model_extra or {})["annotations"][0]["url_citation"]["title"]
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.total_tokens == 12


async def test_a_cache_for_all_models_leaves_streams_whole() -> None:
    set_llm_cache(InMemoryCache())
    try:
        for answer in ("In 1932.", ANSWER):
            served = client(chat([answer], cache=False))
            stream = await served.chat.completions.create(
                model="concat", messages=QUESTION, stream=True
            )
            words = [one.choices[0].delta.content or "" async for one in stream]
            assert "".join(words) == answer
    finally:
        set_llm_cache(None)


async def test_langchains_model_talks_to_it() -> None:
    model = ChatOpenAI(
        model="concat",
        base_url="http://test/v1",
        api_key="none",  # type: ignore[arg-type]
        http_async_client=transport(),
    )
    assert (await model.ainvoke("Who built the bridge at Alden?")).text == ANSWER
    pieces = [chunk.text async for chunk in model.astream("Who built the bridge at Alden?")]
    assert "".join(pieces) == ANSWER


async def test_a_conversation_is_restated() -> None:
    def said(seen: Seen) -> str:
        if seen.task["task"] == "restate":
            return RESTATED
        return "In 1932." if "opened?" in seen.text else ANSWER

    more = [{"role": "system", "content": "Be brief."}, *FOLLOW_UP]
    done = await client(chat(said)).chat.completions.create(model="concat", messages=more)
    assert done.choices[0].message.content == "In 1932."


async def test_models_are_the_methods() -> None:
    served = client()
    assert [one.id async for one in served.models.list()] == ["concat"]
    assert (await served.models.retrieve("concat")).owned_by == "ragweave"
    with pytest.raises(NotFoundError):
        await served.models.retrieve("gpt-4o")


@pytest.mark.parametrize("stream", [True, False])
async def test_what_is_wrong_is_said_in_openais_form(stream: bool) -> None:
    create: Any = client().chat.completions.create
    with pytest.raises(NotFoundError, match="no model 'gpt-4o': concat"):
        await create(model="gpt-4o", messages=QUESTION, stream=stream)
    for messages in (
        [],
        [{"role": "assistant", "content": "Hi"}],
        [{"role": "user", "content": " "}],
    ):
        with pytest.raises(BadRequestError, match=r"messages"):
            await create(model="concat", messages=messages, stream=stream)
    image = [{"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    with pytest.raises(BadRequestError, match="text alone"):
        await create(model="concat", messages=[{"role": "user", "content": image}], stream=stream)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_tells_nothing_of_the_operators_machine(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_seen: Seen) -> str:
        raise ValueError("/srv/secret/model.gguf is broken")

    create: Any = client(chat(fails)).chat.completions.create
    with pytest.raises(InternalServerError) as told:
        await create(model="concat", messages=QUESTION, stream=stream)
    assert "secret" not in str(told.value)
    assert "secret" in caplog.text


@pytest.mark.parametrize(
    "given",
    [
        {"stream": None},
        {"stream": True, "stream_options": {"include_usage": None}},
        {"stream": True, "stream_options": None},
        {"temperature": None, "tools": None, "stop": None},
    ],
)
async def test_null_is_a_setting_left_out(given: dict[str, Any]) -> None:
    body = {"model": "concat", "messages": QUESTION, **given}
    reply = await transport().post("/v1/chat/completions", json=body)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith(
        "text/event-stream" if given.get("stream") else "application/json"
    )
    assert "Ada" in reply.text
    assert ("usage" in reply.text) == (not given.get("stream"))


async def test_what_the_assistant_refused_is_part_of_the_conversation() -> None:
    refusal = [{"type": "refusal", "refusal": "I cannot say."}]
    turns = ({"role": "assistant", "content": refusal}, {"role": "user", "content": "Who?"})
    read = [Message.model_validate(turn) for turn in turns]
    assert [one.text for one in messages_of(read)] == ["I cannot say.", "Who?"]
    body = {"model": "concat", "messages": [{"role": "user", "content": refusal}]}
    reply = await transport().post("/v1/chat/completions", json=body)
    assert reply.status_code == 400
    assert "not 'refusal'" in reply.json()["error"]["message"]


def test_a_part_s_other_field_may_be_null() -> None:
    said = [{"type": "refusal", "refusal": "I cannot say.", "text": None}]
    asked = [{"type": "text", "text": "Who?", "refusal": None}, {"type": "text", "text": None}]
    turns = ({"role": "assistant", "content": said}, {"role": "user", "content": asked})
    read = [Message.model_validate(turn) for turn in turns]
    assert [one.text.strip() for one in messages_of(read)] == ["I cannot say.", "Who?"]


async def test_a_key_is_asked_for() -> None:
    for key in ("", "wrong", "rig"):
        with pytest.raises(AuthenticationError):
            await client(key=key or "x", api_keys=("right", "also")).models.list()
    assert await client(key="also", api_keys=("right", "also")).models.list()
    web = transport(api_keys=("right",))
    bare = await web.get("/v1/models", headers={"authorization": "right"})
    assert bare.status_code == 401
    assert (await web.get("/health")).json() == {"status": "ok"}
    assert (await web.get("/metrics")).status_code == 401


async def test_a_request_is_limited_in_size() -> None:
    web = transport(request_bytes=200)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 100

    reply = await web.post("/v1/chat/completions", content=endless())
    assert reply.status_code == 413
    assert reply.json()["error"]["message"] == "a request has at most 200 bytes"


async def test_more_at_once_than_allowed_are_sent_away() -> None:
    served = client(chat(delay=0.2), concurrency=1)
    create: Any = served.chat.completions.create
    results = await asyncio.gather(
        *(create(model="concat", messages=QUESTION) for _ in range(3)), return_exceptions=True
    )
    assert sum(isinstance(one, RateLimitError) for one in results) == 2
    assert (await create(model="concat", messages=QUESTION)).choices


def test_an_event_is_one_line_to_any_reader() -> None:
    said = "one\u2028two\x85three"
    line, *rest = Chunks("concat").event({"content": said}).splitlines()
    assert json.loads(line.removeprefix("data: "))["choices"][0]["delta"]["content"] == said
    assert rest == [""]


@pytest.mark.parametrize("stream", [True, False])
async def test_metrics_count(stream: bool) -> None:
    web = transport()
    asked = {"model": "concat", "messages": QUESTION, "stream": stream}
    await web.post("/v1/chat/completions", json=asked)
    text = (await web.get("/metrics")).text
    assert 'ragweave_requests_total{model="concat",status="200"} 1.0' in text
    assert 'ragweave_tokens_total{kind="input",model="concat"} 10.0' in text
    assert "ragweave_in_flight 0.0" in text


async def leave(app: Any, asked: dict[str, Any], model: ScriptedChat, sent: int) -> None:
    """Ask, and close the connection once the model was called and `sent` messages have come."""
    body = json.dumps(asked).encode()
    given = [{"type": "http.request", "body": body, "more_body": False}]
    came: list[Any] = []

    async def receive() -> Any:
        if given:
            return given.pop()
        while not model.seen or len(came) < sent:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        came.append(message)
        if len(came) == sent:
            await asyncio.Event().wait()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [],
    }
    await app(scope, receive, send)


@pytest.mark.parametrize(("stream", "sent"), [(False, 0), (True, 0), (True, 2)])
async def test_a_caller_who_leaves_ends_the_work(stream: bool, sent: int) -> None:
    model = ScriptedChat(replies=[RESTATED, "In 1932."], delay=0.1, usage=(10, 2))
    retriever = ListRetriever(documents=documents(*TEXTS))
    app = create_app({"concat": build_chat("concat", model=model, retriever=retriever)})
    asked = {"model": "concat", "messages": FOLLOW_UP, "stream": stream}
    await leave(app, asked, model, sent)
    assert len(model.seen) == (2 if sent else 1)
    web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
    text = (await web.get("/metrics")).text
    assert 'ragweave_requests_total{model="concat",status="499"} 1.0' in text
    assert 'status="200"' not in text
    counted = 'ragweave_tokens_total{kind="input",model="concat"} 20.0' in text
    assert counted == bool(sent)
    assert ('kind="output"' in text) == bool(sent)
    assert "ragweave_in_flight 0.0" in text


@pytest.mark.parametrize("origins", ["https://chat.example", ["https://chat.example"]])
async def test_pages_of_named_origins_may_call(origins: Any) -> None:
    sent = "authorization,content-type,x-stainless-arch,x-stainless-retry-count"
    asks = {
        "origin": "https://chat.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": sent,
    }
    allowed = await transport(origins=origins).options("/v1/models", headers=asks)
    assert allowed.status_code == 200, allowed.text
    assert allowed.headers["access-control-allow-origin"] == "https://chat.example"
    assert allowed.headers["access-control-allow-headers"] == sent
    assert "access-control-allow-credentials" not in allowed.headers
    refused = await transport().options("/v1/models", headers=asks)
    assert "access-control-allow-origin" not in refused.headers


def test_limits_are_checked() -> None:
    with pytest.raises(UsageError, match="concurrency must be at least 1"):
        Limits(concurrency=0)


@pytest.mark.parametrize("kind", [PromptTooLongError, ContextOverflowError])
@pytest.mark.parametrize("stream", [True, False])
async def test_a_question_that_does_not_fit_is_the_callers_mistake(
    kind: type[Exception], stream: bool
) -> None:
    def fails(_seen: Seen) -> str:
        raise kind("/srv/secret/model.gguf takes 4096 tokens")

    create: Any = client(chat(fails)).chat.completions.create
    with pytest.raises(BadRequestError, match="does not fit into the model's context") as told:
        await create(model="concat", messages=QUESTION, stream=stream)
    assert told.value.code == "context_length_exceeded"
    assert "secret" not in str(told.value)


async def test_an_answer_that_takes_too_long_is_not_tried_again() -> None:
    model = ScriptedChat(replies=[ANSWER], delay=5)
    retriever = ListRetriever(documents=documents(*TEXTS))
    slow = build_chat("concat", model=model, retriever=retriever, timeout=0.05)
    asked = {"model": "concat", "messages": QUESTION}
    reply = await transport(slow).post("/v1/chat/completions", json=asked)
    assert reply.status_code == 504
    assert reply.headers["x-should-retry"] == "false"


async def test_what_an_agent_says_beside_a_call_is_no_answer() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "transfer", "arguments": "{}"}}
    said = {"role": "assistant", "content": "Let me ask.", "tool_calls": [call]}
    done = {"role": "tool", "tool_call_id": "1", "content": "done"}
    create: Any = client().chat.completions.create
    out = await create(model="concat", messages=[*QUESTION, said, done])
    assert out.choices[0].message.content == ANSWER


async def test_a_page_may_read_that_nothing_is_tried_again() -> None:
    model = ScriptedChat(replies=[ANSWER], delay=5)
    retriever = ListRetriever(documents=documents(*TEXTS))
    slow = build_chat("concat", model=model, retriever=retriever, timeout=0.05)
    there = transport(slow, origins=["https://chat.example"])
    asked = {"model": "concat", "messages": QUESTION}
    head = {"origin": "https://chat.example"}
    reply = await there.post("/v1/chat/completions", json=asked, headers=head)
    assert "x-should-retry" in reply.headers["access-control-expose-headers"]


async def test_a_conversation_needs_a_new_question() -> None:
    create: Any = client().chat.completions.create
    with pytest.raises(BadRequestError, match="a new question behind the last answer"):
        await create(model="concat", messages=FOLLOW_UP[:2])
