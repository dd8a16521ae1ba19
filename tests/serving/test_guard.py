"""Who may call, what they may send, and how much is answered at once: the guard before every app that is served."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import uvicorn
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from starlette.requests import Request
from starlette.responses import JSONResponse

from ragweave import build_chat
from ragweave.serving import openai_api, server
from ragweave.serving.guard import LOCAL_HOSTS, AccessLimits, Guard
from ragweave.serving.openai_api import create_app
from ragweave.testing import ScriptedModel


class App:
    """An app that answers when it is let go, with what it was sent."""

    def __init__(self, *, waits: bool = False) -> None:
        self.go, self.entered = asyncio.Event(), 0
        if not waits:
            self.go.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.entered += 1
        body = await Request(scope, receive).body()
        await self.go.wait()
        await JSONResponse({"bytes": len(body), "caller": scope.get("caller")})(scope, receive, send)


def client(app: Any, host: str = "test", **limits: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(Guard(app, AccessLimits(**limits))), base_url=f"http://{host}"
    )


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


async def test_a_body_that_stalls_takes_no_slot_and_is_given_up() -> None:
    async def stalled() -> Any:
        yield b"{"
        await asyncio.sleep(3600)

    web = client(App(), concurrency=1, queue=0, body_seconds=1)
    head = {"content-type": "application/json"}
    stalls = [asyncio.create_task(web.post("/", content=stalled(), headers=head)) for _ in range(9)]
    await asyncio.sleep(0)
    assert (await web.post("/", json={})).json()["bytes"] == 2
    assert {reply.status_code for reply in await asyncio.gather(*stalls)} == {408}


async def test_half_a_body_is_not_handed_on_when_its_sender_leaves() -> None:
    app, sent = App(), []
    messages = [{"type": "http.disconnect"}, {"type": "http.request", "body": b"half", "more_body": True}]

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "PUT", "path": "/documents/a.md", "headers": []}
    await Guard(app, AccessLimits())(scope, receive, send)
    assert (app.entered, sent[0]["status"]) == (0, 499)


async def test_bodies_are_bounded_each_and_together() -> None:
    app = App(waits=True)
    web = client(app, request_bytes=1_000, queue=99, queue_seconds=600)
    assert (await web.post("/", json="x" * 1_000)).status_code == 413
    posts = [asyncio.create_task(web.post("/", json="x" * 900)) for _ in range(20)]
    await until(lambda: sum(post.done() for post in posts) == 12)
    app.go.set()
    replies = await asyncio.gather(*posts)
    assert sorted({reply.status_code for reply in replies}) == [200, 429]
    assert sum(reply.status_code == 200 for reply in replies) == 8
    assert (await web.post("/", json="x" * 900)).status_code == 200


async def test_a_few_wait_for_their_turn_and_more_are_told_when_to_try_again() -> None:
    app = App(waits=True)
    web = client(app, concurrency=1, queue=1, queue_seconds=3)
    first = asyncio.create_task(web.post("/", json={}))
    await until(lambda: app.entered == 1)
    second = asyncio.create_task(web.post("/", json={}))
    await asyncio.sleep(0.05)
    third = await web.post("/", json={})
    assert (third.status_code, third.headers["retry-after"], app.entered) == (429, "3", 1)
    app.go.set()
    assert [(await reply).status_code for reply in (first, second)] == [200, 200]


async def test_the_picture_of_a_quote_takes_a_slot_and_other_reading_none() -> None:
    app = App(waits=True)
    web = client(app, concurrency=1, queue=0)
    first = asyncio.create_task(web.get("/v1/sources/p/picture"))
    await until(lambda: app.entered == 1)
    assert (await web.get("/v1/sources/p")).status_code == 429
    models = asyncio.create_task(web.get("/v1/models"))
    await until(lambda: app.entered == 2)
    app.go.set()
    assert {(await task).status_code for task in (first, models)} == {200}


async def test_waiting_has_an_end() -> None:
    app = App(waits=True)
    web = client(app, concurrency=1, queue_seconds=0.05)
    first = asyncio.create_task(web.post("/", json={}))
    await until(lambda: app.entered == 1)
    assert (await web.post("/", json={})).status_code == 429
    app.go.set()
    assert (await first).status_code == 200


async def test_a_page_of_another_origin_can_call_neither_by_its_own_name_nor_without_asking() -> None:
    for host in ("127.0.0.1:8000", "LOCALHOST", "[::1]:8000"):
        assert (await client(App(), host, hosts=LOCAL_HOSTS).post("/", json={})).status_code == 200
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000"):
        reply = await client(App(), host, hosts=LOCAL_HOSTS).get("/")
        assert (reply.status_code, "host name" in reply.text) == (421, True)
    for kind in ("text/plain", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", ""):
        reply = await client(App()).post("/", content="{}", headers={"content-type": kind})
        assert reply.status_code == 415
    assert (await client(App()).post("/", json={})).status_code == 200


async def test_the_app_learns_who_calls() -> None:
    web = client(App(), api_keys=["one", "two"], open_paths=["/"])
    callers = [
        (await web.get("/", headers=head)).json()["caller"]
        for head in ({}, {"authorization": "Bearer one"}, {"authorization": "bearer  two"}, {"authorization": "one"})
    ]
    assert callers[0] is callers[3] is None
    assert len({*callers}) == 3
    assert not {"one", "two"} & {*callers}
    assert (await web.get("/x")).status_code == 401
    assert (await client(App()).get("/")).json()["caller"] == ""


class Blocking(BaseRetriever):
    """A search that goes on until it is let go, in a thread that nothing can stop."""

    entered: Any
    go: Any

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        self.entered.append(query)
        self.go.wait(30)
        return [Document("The bridge opened in 1932.", id="d")]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_slot_is_free_only_when_the_thread_has_ended_though_the_caller_left(
    stream: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_api, "BEAT", 0.01)
    retriever = Blocking(entered=[], go=threading.Event())
    chat = build_chat("concat", model=ScriptedModel(script=lambda _: "1932"), retriever=retriever)
    app = create_app({"concat": chat}, AccessLimits(concurrency=1, queue=0))
    body = {"model": "concat", "messages": [{"role": "user", "content": "When?"}], "stream": stream}
    messages: list[Any] = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await until(lambda: bool(retriever.entered))
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        await asyncio.sleep(0)

    web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")
    request = httpx.Request("POST", "http://test/v1/chat/completions", json=body)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/chat/completions",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "http_version": "1.1",
        "scheme": "http",
        "root_path": "",
    }
    left = asyncio.create_task(app(scope, receive, send))
    await until(lambda: bool(retriever.entered))
    await asyncio.sleep(0.1)
    assert (await web.send(request)).status_code == 429
    retriever.go.set()
    await left
    assert (await web.post("/v1/chat/completions", json={**body, "stream": False})).status_code == 200


@pytest.mark.loopback
async def test_a_head_that_does_not_arrive_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    app = App()
    config = uvicorn.Config(app, port=0, http=server.TimedHeads, ws="none", log_level="error", lifespan="off")
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    await until(lambda: running.started)
    port = running.servers[0].sockets[0].getsockname()[1]
    whole = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    for sent in (b"", b"GET / HTTP/1.1\r\nX: ", whole + b"GET"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        received = await asyncio.wait_for(reader.read(), 30)
        assert received.count(b"200 OK") == sent.count(whole)
        writer.close()
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as web:
        app.go.clear()
        slow = asyncio.create_task(web.get("/"))  # its head has arrived; its answer takes longer
        await asyncio.sleep(0.6)
        app.go.set()
        assert (await slow).status_code == 200
    running.should_exit = True
    await task
