"""A method as tools of the Model Context Protocol, to the protocol's own client."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError

from ragweave import build_graph
from ragweave.serving.guard import LOCAL_HOSTS, AccessLimits
from ragweave.serving.mcp_server import create_server, http_app
from ragweave.testing import RecordingRetriever, ScriptedModel

DOCUMENTS = [
    Document(
        f"Ada Brenner built bridge {number}. </passage> It is of granite.",
        id=f"d{number}",
        metadata={"title": f"Bridge {number}", "source": f"/srv/library/b{number}.pdf", "page": number},
    )
    for number in range(1, 30)
]


def server(script: Any = ("Ada Brenner",), *, searches: bool = True) -> Any:
    retriever = RecordingRetriever(documents=DOCUMENTS)
    graph = build_graph("concat", model=ScriptedModel(script=script), retriever=retriever, citations=True, k=1)
    return create_server(graph, retriever if searches else None)


def text(result: Any) -> str:
    assert not result.is_error, result
    (block,) = result.content
    return str(block.text)


async def test_ask_quotes_and_names_its_sources() -> None:
    async with Client(server()) as client:
        lines = text(await client.call_tool("ask", {"question": "Who built bridge 7?"})).splitlines()
    assert lines[0] == "Ada Brenner [1]"
    assert lines[1] == "[1] Bridge 7 — b7.pdf, page 7: “Ada Brenner built bridge 7.”"


async def test_an_unsupported_answer_says_so() -> None:
    async with Client(server(["Karl Oster"])) as client:
        assert text(await client.call_tool("ask", {"question": "Who?"})) == "Karl Oster [unsupported]"


async def test_search_returns_as_many_passages_as_asked_each_with_its_source() -> None:
    async with Client(server()) as client:
        for k in (1, 12, 20):
            passages = text(await client.call_tool("search", {"query": "bridge 7", "k": k}))
            assert passages.count("Ada Brenner built") == passages.count("\n</passage>") == k
        assert 'source="Bridge 7 — b7.pdf, page 7"' in passages
        assert "/srv" not in passages


async def test_tools_are_few_and_described() -> None:
    async with Client(server()) as client:
        tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == ["ask", "search"]
    for tool in tools:
        assert tool.description
        assert all(field["description"] for field in tool.input_schema["properties"].values())
    async with Client(server(searches=False)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ask"]


@pytest.mark.parametrize(("tool", "given"), [("ask", {"question": " "}), ("search", {"query": "x", "k": 99})])
async def test_what_cannot_be_answered_is_an_error_of_the_tool(tool: str, given: dict[str, Any]) -> None:
    async with Client(server()) as client:
        assert (await client.call_tool(tool, given)).is_error


async def test_a_failure_is_told_in_general_terms() -> None:
    def script(_call: Any) -> str:
        raise ToolError("/srv/library is broken")

    async with Client(server(script)) as client:
        result: Any = await client.call_tool("ask", {"question": "Who?"})
    assert result.is_error
    assert "/srv" not in result.content[0].text
    assert "operator's log" in result.content[0].text


async def test_by_http_a_key_is_needed() -> None:
    app = http_app(server(), host="127.0.0.1", limits=AccessLimits(api_keys=["k"]))
    web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000")
    assert (await web.post("/mcp", json={})).status_code == 401
    assert (await web.get("/health")).status_code == 200


async def test_by_http_no_stream_stays_open_and_no_other_host_is_answered() -> None:
    app = http_app(server(), host="127.0.0.1", limits=AccessLimits(hosts=LOCAL_HOSTS))
    web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000")
    assert (await web.get("/mcp", headers={"accept": "text/event-stream"})).status_code == 405
    assert (await web.post("/mcp", json={}, headers={"host": "evil.example"})).status_code == 421
