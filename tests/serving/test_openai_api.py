"""Methods behind OpenAI's protocol: the real clients, without a network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from langchain_openai import ChatOpenAI
from langgraph.store.memory import InMemoryStore
from openai import APIError, APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError
from tests.openai_server import HttpFault, OpenAIServer, Reply

from ragweave import build_chat
from ragweave.errors import BrokenReplyError, UsageError
from ragweave.serving import openai_api
from ragweave.serving.guard import AccessLimits
from ragweave.serving.openai_api import create_app
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.footnotes import MEANING

DOCUMENTS = [
    Document(
        "The bridge was built by Ada Brenner. It opened in 1932.",
        id="d1",
        metadata={
            "title": "Alden",
            "source": "/srv/library/alden.pdf",
            "page": 3,
            "breaks": [[37, {"page": 4, "heading_path": ["Opening"]}]],
        },
    )
]
QUESTION: Any = [{"role": "user", "content": "Who built the bridge at Alden?"}]
ANSWER = "Ada Brenner built the bridge. Elephants danced in Patagonia."
LATER = "It opened in 1932."


def chat(script: Any = (ANSWER,)) -> Any:
    retriever = RecordingRetriever(documents=DOCUMENTS)
    return build_chat("concat", model=ScriptedModel(script=script), retriever=retriever, answer_type="long")


def web(served: Any = None, plain: Any = None, threads: Any = None, **limits: Any) -> httpx.AsyncClient:
    app = create_app({"concat": served or chat()}, AccessLimits(**limits), plain, threads=threads)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


def client(served: Any = None, key: str = "none", plain: Any = None, threads: Any = None, **limits: Any) -> AsyncOpenAI:
    http: Any = web(served, plain, threads, **limits)
    return AsyncOpenAI(base_url="http://test/v1", api_key=key, max_retries=0, http_client=http)


async def asked(served: Any = None, messages: Any = QUESTION, **more: Any) -> Any:
    return await client(served).chat.completions.create(model="concat", messages=messages, **more)


async def responded(served: Any = None, given: Any = "Who built the bridge at Alden?", **more: Any) -> Any:
    return await client(served).responses.create(model="concat", input=given, **more)


async def test_the_openai_client_gets_an_answer_with_file_and_page() -> None:
    done = await asked(temperature=0.3, user="me", n=1, tool_choice="none", response_format={"type": "text"})
    (choice,) = done.choices
    assert (choice.message.content, choice.finish_reason) == (ANSWER, "stop")
    (note,) = choice.message.annotations
    cited = note.url_citation
    assert ANSWER[cited.start_index : cited.end_index] == "Ada Brenner built the bridge."
    assert (cited.title, cited.url) == ("Alden — alden.pdf, page 3", "urn:ragweave:passage:d1")
    quote = "The bridge was built by Ada Brenner."
    place = {"passage": "d1", "file": "alden.pdf", "page": 3}
    assert cited.model_extra == {"cited_text": quote, **place, "meaning": MEANING}
    (span,) = choice.message.model_extra["unsupported"]
    assert ANSWER[span["start_index"] : span["end_index"]] == "Elephants danced in Patagonia."
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0
    assert "/srv" not in done.model_dump_json()


async def test_a_response_cites_as_a_chat_completion_does() -> None:
    chat_message = (await asked()).choices[0].message
    done = await responded(instructions="Be brief.", temperature=0.3, tools=[], text={"format": {"type": "text"}})
    assert (done.output_text, done.status, done.store) == (ANSWER, "completed", False)
    (part,) = done.output[0].content
    nested = [{"type": "url_citation", **note.url_citation.model_dump()} for note in chat_message.annotations]
    assert [note.model_dump() for note in part.annotations] == nested
    assert part.model_extra["unsupported"] == chat_message.model_extra["unsupported"]
    assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens > 0


async def test_a_streamed_response_ends_as_the_one_that_is_not_streamed() -> None:
    events = [event async for event in await responded(stream=True)]
    assert [event.sequence_number for event in events] == [*range(len(events))]
    assert [event.type.removeprefix("response.") for event in events] == [
        *("created", "in_progress", "output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.annotation.added", "output_text.done", "content_part.done", "output_item.done", "completed"),
    ]
    whole = await responded()
    assert events[-1].response.output[0].content == whole.output[0].content
    assert events[-1].response.usage == whole.usage
    assert events[5].annotation.model_dump() == whole.output[0].content[0].annotations[0].model_dump()
    async with client().responses.stream(model="concat", input="Who built the bridge?") as stream:
        final = await stream.get_final_response()
    assert final.output_text == ANSWER


def remembering(call: ModelCall) -> str:
    return "When did the bridge at Alden open?" if "Rewrite the last question" in call.text else LATER


async def test_a_response_goes_on_from_an_earlier_one_of_its_own_caller() -> None:
    served, threads = chat(remembering), InMemoryStore()
    own = client(served, threads=threads).responses
    first = await own.create(model="concat", input="Who built the bridge?", instructions="Be brief.")
    for earlier in (first, first):  # each goes on from the first
        events = await own.create(
            model="concat", input="And when did it open?", previous_response_id=earlier.id, stream=True
        )
        second = [event async for event in events][-1].response
        assert (second.previous_response_id, second.store) == (first.id, True)
    (kept,) = [item.value["turns"] for item in threads.search(("responses",)) if item.key == second.id]
    said = [("user", "Who built the bridge?"), ("assistant", LATER), ("user", "And when did it open?")]
    assert [(turn["role"], turn["content"]) for turn in kept] == [*said, ("assistant", LATER)]
    unkept = await own.create(model="concat", input="Who?", store=False)
    for caller, wrong in (
        (own, "resp_0"),
        (own, unkept.id),
        (client(served, "another", threads=threads).responses, first.id),
    ):
        with pytest.raises(BadRequestError, match=wrong) as caught:
            await caller.create(model="concat", input="And when?", previous_response_id=wrong)
        assert caught.value.code == "previous_response_not_found"
    with pytest.raises(BadRequestError, match="no responses are kept here"):
        await responded(previous_response_id=first.id)


async def test_a_responses_input_may_hold_an_earlier_conversation() -> None:
    tools: list[Any] = [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "nothing"},
    ]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    given = [
        {"role": "user", "content": [{"type": "input_text", "text": "Who built this bridge?"}, picture]},
        *tools,
        {"role": "assistant", "content": [{"type": "output_text", "text": "Ada Brenner.", "annotations": []}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "And when did it open?"}]},
    ]
    assert (await responded(chat(remembering), given)).output_text == LATER


NOT_OFFERED: list[tuple[dict[str, Any], str]] = [
    ({"input": []}, "input: "),
    ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "only text, not input_image"),
    ({"input": "x" * 100_001}, "input: the question has 100001 characters"),
    ({"text": {"format": {"type": "json_schema"}}}, "text.format.type: Input should be 'text'"),
    ({"tool_choice": "required"}, "tool_choice: "),
    ({"background": True}, "background: "),
    ({"conversation": "conv_1"}, "conversation: "),
]


@pytest.mark.parametrize(("more", "message"), NOT_OFFERED)
async def test_what_responses_do_not_offer_is_refused_by_name(more: dict[str, Any], message: str) -> None:
    for stream in (False, True):
        with pytest.raises(BadRequestError, match=message):
            await client().responses.create(**{"model": "concat", "input": "Who?", "stream": stream, **more})


async def test_a_quote_is_cited_by_its_own_page() -> None:
    done = await asked(chat([LATER]))
    assert done.choices[0].message.annotations[0].url_citation.title == "Alden › Opening — alden.pdf, page 4"


async def test_a_stream_has_the_answer_then_citations_then_usage() -> None:
    stream = await asked(stream=True, stream_options={"include_usage": True})
    chunks = [chunk async for chunk in stream]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == ANSWER
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert deltas[-1].model_extra["annotations"][0]["url_citation"]["page"] == 3
    assert chunks[-1].usage.total_tokens > 0


async def test_a_stream_says_at_once_that_work_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_api, "BEAT", 0.01)

    async def slowly(*_: Any, **__: Any) -> Any:
        await asyncio.sleep(0.1)
        return await chat().ainvoke({"messages": [("user", "Who built the bridge at Alden?")]})

    served = chat()
    monkeypatch.setattr(served, "ainvoke", slowly)
    body = {"model": "concat", "messages": QUESTION, "stream": True}
    lines = (await web(served).post("/v1/chat/completions", json=body)).text.split("\n\n")
    comments = [line for line in lines if line.startswith(":")]
    assert lines[0] == ": working"
    assert len(comments) > 1
    assert lines[-2] == "data: [DONE]"


async def test_a_follow_up_is_restated_and_earlier_pictures_are_passed_over() -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    file = {"type": "file", "file": {"file_id": "f1"}}
    earlier = {"role": "user", "content": [{"type": "text", "text": "Who built this bridge?"}, picture, file]}
    messages = [
        {"role": "system", "content": "Be brief."},
        earlier,
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "nothing", "tool_call_id": "1"},
        {"role": "assistant", "content": "Ada Brenner."},
        {"role": "user", "content": [{"type": "text", "text": "And when did it open?"}]},
        {"role": "developer", "content": "Name the year."},
        {"role": "assistant", "content": None},
    ]
    body = {"model": "concat", "messages": messages}
    done = (await web(chat(remembering)).post("/v1/chat/completions", json=body)).json()
    assert done["choices"][0]["message"]["content"] == LATER
    assert (await responded(chat(remembering), messages)).output_text == LATER


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"n": 2}, 400, "n: "),
    (
        {"response_format": {"type": "json_schema", "json_schema": {}}},
        400,
        "response_format.type: Input should be 'text'",
    ),
    ({"tool_choice": "required"}, 400, "tool_choice: "),
    ({"tool_choice": {"type": "function"}}, 400, "tool_choice: "),
    ({"model": "nope"}, 404, "there is no model 'nope': concat"),
    ({"messages": []}, 400, "messages: "),
    ({"messages": [{"role": "user", "content": " "}]}, 400, "messages: the question is empty"),
    ({"messages": [*QUESTION, {"role": "assistant", "content": "Ada."}]}, 400, "messages: the last one"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400, "only text, not image_url"),
    ({"messages": [{"role": "user", "content": "x" * 2_000}]}, 413, "at most 1000 bytes"),
]


TOO_LONG: list[tuple[Any, str]] = [
    ([{"role": "user", "content": "x" * 100_001}], "the question has 100001 characters; at most 100000 are allowed"),
    ([{"role": "assistant", "content": "x" * 999_999}, *QUESTION], "the conversation has 1000029 characters; at most"),
    ([{"role": "assistant", "content": ""}] * 10_000 + QUESTION, "at most 10000 items"),
    ([{"role": "user", "content": "\ud800"}], "the body"),
]


@pytest.mark.parametrize(("messages", "message"), TOO_LONG)
async def test_what_is_too_long_is_refused_with_the_limit(messages: Any, message: str) -> None:
    body = json.dumps({"model": "concat", "messages": messages})
    head = {"content-type": "application/json"}
    reply = await web().post("/v1/chat/completions", content=body, headers=head)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]


@pytest.mark.parametrize(("more", "status", "message"), REFUSED)
async def test_what_is_not_offered_is_refused_by_name(more: dict[str, Any], status: int, message: str) -> None:
    body = {"model": "concat", "messages": QUESTION, **more}
    for stream in (False, True):  # before the first byte of a stream, too
        got = await web(request_bytes=1_000).post("/v1/chat/completions", json={**body, "stream": stream})
        assert got.status_code == status
        assert message in got.json()["error"]["message"]


def fails(error: Exception) -> Callable[[ModelCall], str]:
    def script(_call: ModelCall) -> str:
        raise error

    return script


FAILURES = [
    (ContextOverflowError("too long: sk-secret-key"), 400, "context_length_exceeded"),
    (httpx.ConnectError("10.0.0.1 refused"), 502, None),
    (BrokenReplyError("the provider of sk-secret-key broke off"), 502, None),
    (UsageError("/srv/library is broken"), 500, None),
]


@pytest.mark.parametrize(("error", "status", "code"), FAILURES)
async def test_a_failure_is_told_in_general_terms(error: Exception, status: int, code: str | None) -> None:
    with pytest.raises(APIStatusError) as caught:
        await asked(chat(fails(error)))
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert str(error) not in str(caught.value)
    with pytest.raises(APIError) as streamed:
        _ = [chunk async for chunk in await asked(chat(fails(error)), stream=True)]
    with pytest.raises(APIStatusError) as response:
        await responded(chat(fails(error)))
    assert (response.value.status_code, response.value.code) == (status, code)
    with pytest.raises(APIError) as streamed_response:
        _ = [event async for event in await responded(chat(fails(error)), stream=True)]
    assert streamed_response.value.code == code
    assert str(error) not in f"{streamed.value} {response.value} {streamed_response.value}"


def upstream(server: OpenAIServer, **settings: Any) -> Any:
    return ChatOpenAI(model="m", base_url=server.base_url, api_key="none", max_retries=0, **settings)


FAULTS: list[tuple[HttpFault, int, str | None, int]] = [
    (HttpFault(400, message="This model's maximum context length is 10 tokens"), 400, "context_length_exceeded", 1),
    (HttpFault(400, message="flagged", code="content_filter"), 400, "content_filter", 1),
    (HttpFault(400, message="flagged", code="invalid_prompt"), 400, "invalid_prompt", 1),
    (HttpFault(401, message="Incorrect API key sk-secret"), 502, None, 1),
    (HttpFault(429, message="no credit", code="insufficient_quota"), 429, "insufficient_quota", 1),
    (HttpFault(429, retry_after=0.01, message="slow down"), 429, "rate_limit_exceeded", 3),
    (HttpFault(503, retry_after=0.01, message="overloaded"), 502, None, 3),
]
"""What the model's server says, what the caller gets, and how often the caller's client asks."""


@pytest.mark.loopback
@pytest.mark.parametrize(("fault", "status", "code", "requests"), FAULTS)
async def test_a_client_tries_again_only_where_that_may_help(
    fault: HttpFault, status: int, code: str | None, requests: int
) -> None:
    served, asks = [], QUESTION
    with OpenAIServer([fault]) as server:
        http = web(plain=upstream(server))
        http.event_hooks = {"response": [lambda response: append(served, response)]}
        caller = AsyncOpenAI(base_url="http://test/v1", api_key="none", max_retries=2, http_client=http)
        with pytest.raises(APIStatusError) as caught:
            await caller.chat.completions.create(model="plain", messages=asks)
    assert (caught.value.status_code, caught.value.code, len(served)) == (status, code, requests)
    assert fault.message not in str(caught.value)
    assert served[0].headers.get("retry-after") == ("1" if code == "rate_limit_exceeded" else None)


async def append(responses: list[Any], response: Any) -> None:
    responses.append(response)


@pytest.mark.loopback
@pytest.mark.parametrize("fault", [fault for fault, status, _, _ in FAULTS if status == 400])
async def test_a_method_whose_prompt_is_refused_is_no_servers_failure(fault: HttpFault) -> None:
    with OpenAIServer([fault]) as server:
        served = build_chat("concat", model=upstream(server), retriever=RecordingRetriever(documents=DOCUMENTS))
        with pytest.raises(BadRequestError) as caught:
            await asked(served)
    assert caught.value.code == (fault.code or "context_length_exceeded")


@pytest.mark.loopback
@pytest.mark.parametrize("method", ["concat", "research"])
@pytest.mark.parametrize(("ending", "finish"), [("stop", "stop"), ("length", "length")])
async def test_a_reply_that_was_cut_says_so(method: Any, ending: str, finish: str) -> None:
    with OpenAIServer([Reply("Ada Brenner built", finish_reason=ending)]) as server:
        model = upstream(server)
        served = build_chat(method, model=model, retriever=RecordingRetriever(documents=DOCUMENTS))
        api = client(served, plain=model)
        for name in ("concat", "plain"):
            done = await api.chat.completions.create(model=name, messages=QUESTION)
            assert done.choices[0].finish_reason == finish
            stream = await api.chat.completions.create(model=name, messages=QUESTION, stream=True)
            reasons = [chunk.choices[0].finish_reason async for chunk in stream if chunk.choices]
            assert reasons[-1] == finish
            response: Any = await api.responses.create(model=name, input="Who built the bridge at Alden?")
            cut = getattr(response.incomplete_details, "reason", None)
            assert (response.status, cut) == (
                ("completed", None) if ending == "stop" else ("incomplete", "max_output_tokens")
            )


async def test_the_answering_model_itself_is_served_for_titles() -> None:
    plain = ScriptedModel(script=['{"title": "Bridges"}'])
    api = client(plain=plain)
    assert [model.id async for model in api.models.list()] == ["concat", "plain"]
    task: Any = [{"role": "user", "content": "### Task:\nGenerate a title."}]
    done = await api.chat.completions.create(model="plain", messages=task)
    assert done.choices[0].message.content == '{"title": "Bridges"}'
    assert plain.calls[0].last == "### Task:\nGenerate a title."
    with pytest.raises(NotFoundError):
        await client().models.retrieve("plain")


async def test_langchains_client_reads_the_citations() -> None:
    given: Any = {"base_url": "http://test/v1", "api_key": "none", "max_retries": 0, "http_async_client": web()}
    served = ChatOpenAI(model="concat", **given)
    message = await served.ainvoke("Who built the bridge at Alden?")
    assert message.text == ANSWER
    responding = ChatOpenAI(model="concat", use_responses_api=True, **given)
    message = await responding.ainvoke("Who built the bridge at Alden?")
    assert message.text == ANSWER
    block: Any = message.content_blocks[0]
    assert block["annotations"][0]["title"] == "Alden — alden.pdf, page 3"


async def test_only_callers_with_a_key_are_let_through() -> None:
    app = web(api_keys=["one", "two"])
    assert (await app.get("/health")).status_code == 200
    for path in ("/v1/models", "/metrics"):
        assert (await app.get(path)).status_code == 401
        assert (await app.get(path, headers={"Authorization": "Bearer twoo"})).status_code == 401
        assert (await app.get(path, headers={"authorization": "bearer  two"})).status_code == 200
    for keys in (["one", " "], "one"):
        with pytest.raises(UsageError):
            AccessLimits(api_keys=keys)


async def test_the_metrics_count_the_requests_and_tokens_of_all_keys() -> None:
    for _ in range(2):  # each key has an app of its own, in one process
        transport = httpx.ASGITransport(create_app({"metered": chat()}, AccessLimits()))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as app:
            await app.post("/v1/chat/completions", json={"model": "metered", "messages": QUESTION})
            text = (await app.get("/metrics")).text
    assert 'ragweave_requests_total{model="metered",status="200"} 2.0' in text
    assert "ragweave_in_flight 0.0" in text
    assert 'ragweave_tokens_total{kind="input",model="metered"}' in text


async def test_a_line_separator_in_an_answer_does_not_break_the_stream() -> None:
    body = {"model": "concat", "messages": QUESTION, "stream": True}
    text = (await web(chat(["one\u2028two"])).post("/v1/chat/completions", json=body)).text
    first = next(line for line in text.splitlines() if line.startswith("data:"))
    assert json.loads(first.removeprefix("data:"))["choices"][0]["delta"]["content"] == "one\u2028two"
