"""A method as tools of the Model Context Protocol, to the protocol's own client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from mcp import Client
from starlette.responses import Response
from tests.scripted import ListRetriever, OwnListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.errors import PromptTooLongError, UsageError
from ragweave.serving.mcp_server import AtOnce, create_server, http_app

TEXTS = (
    "The bridge at Alden was opened in 1932. It was painted grey.",
    "Ada Brenner built the bridge at Alden. She studied in Norhaven.",
)


def server(replies: Any = ("Ada Brenner",), finds: bool = True) -> Any:
    found = ListRetriever(documents=documents(*TEXTS))
    model = ScriptedChat(replies=replies)
    graph = build_graph("concat", model=model, retriever=found, citations=True)
    return create_server(graph, found if finds else None)


def text(result: Any) -> str:
    assert not result.is_error, result
    (block,) = result.content
    return str(block.text)


async def test_an_agent_asks_and_searches() -> None:
    async with Client(server()) as client:
        answer = await client.call_tool("ask", {"question": "Who built the bridge at Alden?"})
        assert text(answer).splitlines()[0] == "Ada Brenner [1]"
        assert "“Ada Brenner built the bridge at Alden.”" in text(answer)
        found = await client.call_tool("search", {"query": "bridge", "k": 1})
        assert text(found).count("bridge at Alden") == 1


@pytest.mark.parametrize("kind", [ListRetriever, OwnListRetriever])
async def test_a_search_returns_as_many_passages_as_it_asks_for(kind: Any) -> None:
    found = kind(documents=documents(*(f"Note {n} on bridges." for n in range(30))))
    graph = build_graph("concat", model=ScriptedChat(replies=["x"]), retriever=found)
    async with Client(create_server(graph, found)) as client:
        for k in (1, 5, 12, 20):
            given = await client.call_tool("search", {"query": "bridge", "k": k})
            assert text(given).count("on bridges") == k


async def test_tools_are_few_described_and_slim() -> None:
    async with Client(server()) as client:
        tools = (await client.list_tools()).tools
    assert [one.name for one in tools] == ["ask", "search"]
    said = json.dumps([one.model_dump(exclude_none=True, mode="json") for one in tools])
    assert len(said) < 1_200, said
    for one in tools:
        assert one.description
        assert set(one.input_schema["properties"]) <= {"question", "query", "k"}
        assert all(field["description"] for field in one.input_schema["properties"].values())
    async with Client(server(finds=False)) as client:
        assert [one.name for one in (await client.list_tools()).tools] == ["ask"]


async def test_an_unsupported_answer_says_so() -> None:
    async with Client(server(["Karl Oster"])) as client:
        answer = await client.call_tool("ask", {"question": "Who built the bridge at Alden?"})
    assert text(answer) == "Karl Oster [unsupported]"


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("ask", {"question": "x" * 5_000}),
        ("ask", {}),
        ("search", {"query": "x", "k": 21}),
        ("search", {"query": "x", "k": 0}),
    ],
)
async def test_arguments_are_checked(tool: str, given: dict[str, Any]) -> None:
    async with Client(server()) as client:
        assert (await client.call_tool(tool, given)).is_error


async def test_a_failure_tells_nothing_of_the_operators_machine(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fails(_seen: Seen) -> str:
        raise ValueError("/srv/secret/model.gguf is broken")

    async with Client(server(fails)) as client:
        result = await client.call_tool("ask", {"question": "Who?"})
    assert result.is_error
    assert "secret" not in str(result)
    assert "secret" in caplog.text


async def test_over_http_so_many_requests_are_answered_at_once() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await go_on.wait()
        if scope["path"] == "/broken":
            raise ValueError("broken")
        await Response("done")(scope, receive, send)

    transport = httpx.ASGITransport(AtOnce(slow, 1), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:80") as web:
        for path in ("/whole", "/broken", "/whole"):
            begun.clear()
            go_on.clear()
            first = asyncio.create_task(web.post(path))
            await begun.wait()
            refused = await web.post("/whole")
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
            go_on.set()
            assert (await first).status_code == (500 if path == "/broken" else 200)


async def test_over_http_a_key_is_asked_for() -> None:
    app = http_app(server(), host="127.0.0.1", keys=["right"])
    web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:80")
    for key in ("", "Bearer ", "Bearer wrong"):
        refused = await web.post("/mcp", json={}, headers={"authorization": key})
        assert refused.status_code == 401
    with pytest.raises(UsageError, match="an API key is empty"):
        http_app(server(), host="127.0.0.1", keys=[""])


async def test_what_the_caller_can_mend_is_said() -> None:
    def fails(_seen: Seen) -> str:
        raise PromptTooLongError("/srv/secret/model.gguf takes 4096 tokens")

    async with Client(server(fails)) as client:
        asked = [
            ("ask", {"question": "Who?"}, "the question is too long for the model"),
            ("ask", {"question": " "}, "the question is empty"),
            ("search", {"query": " "}, "the query is empty"),
        ]
        for tool, given, said in asked:
            result: Any = await client.call_tool(tool, given)
            assert result.is_error
            assert said in result.content[0].text
            assert "secret" not in str(result)
