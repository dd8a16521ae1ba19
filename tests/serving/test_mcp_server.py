"""A method as tools of the Model Context Protocol, to the protocol's own client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from langchain_core.documents import Document
from mcp import Client, MCPError
from mcp.server.mcpserver.exceptions import ToolError

from ragweave import KnowledgeBase, build_graph
from ragweave.serving.guard import LOCAL_HOSTS, AccessLimits
from ragweave.serving.mcp_server import create_server, http_app
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.retrieval import Bm25Retriever

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


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.add(DOCUMENTS[:9], split=False)
        kb.add([Document("It is a page.", id="web", metadata={"source": "https://example.org/a"})])
        yield kb


def library(kb: KnowledgeBase, script: Any = ("Ada Brenner",)) -> Any:
    retriever = kb.as_retriever()
    given: Any = {"model": ScriptedModel(script=script), "retriever": retriever, "citations": True}
    return create_server(build_graph("concat", **given), retriever, build_graph("research", **given))


async def test_ask_quotes_and_names_its_sources() -> None:
    async with Client(server()) as client:
        result = await client.call_tool("ask", {"question": "Who built bridge 7?"})
    lines = text(result).splitlines()
    assert lines[0] == "Ada Brenner [1]"
    assert lines[1] == "[1] Bridge 7 — b7.pdf, page 7: “Ada Brenner built bridge 7.”"
    structured: Any = result.structured_content
    (note,) = structured["annotations"]
    assert (structured["answer"], structured["status"], structured["unsupported"]) == ("Ada Brenner", "answered", [])
    assert (note["cited_text"], note["passage"], note["page"]) == ("Ada Brenner built bridge 7.", "d7", 7)
    assert structured["answer"][note["start_index"] : note["end_index"]] == "Ada Brenner"


async def test_what_a_search_found_can_be_fetched_by_its_id(kb: KnowledgeBase) -> None:
    async with Client(library(kb)) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        found: Any = (await client.call_tool("search", {"query": "bridge 7", "k": 2})).structured_content
        first = found["results"][0]
        fetched = await client.call_tool("fetch", {"id": first["id"]})
        page: Any = (await client.call_tool("fetch", {"id": "web"})).structured_content
        unknown = await client.call_tool("fetch", {"id": "d99"})
    assert all(schemas[name] for name in ("ask", "research", "search", "fetch"))  # the client has validated the results
    assert fetched.structured_content == first
    assert (first["id"], first["title"]) == ("d7", "Bridge 7 — b7.pdf, page 7")
    assert text(fetched).startswith('<passage 1 id="d7" source="Bridge 7 — b7.pdf, page 7">')
    assert (first["url"], page["url"]) == ("urn:ragweave:passage:d7", "https://example.org/a")
    assert unknown.is_error
    assert "/srv" not in str([found, fetched])


async def test_sources_are_resources_as_they_are_now(kb: KnowledgeBase) -> None:
    async with Client(library(kb), cache=None) as client:
        resources = (await client.list_resources()).resources
        by_name = {resource.name: resource.uri for resource in resources}
        (content,) = (await client.read_resource(by_name["b7.pdf"])).contents
        assert len(by_name) == 10
        assert "https://example.org/a" in by_name
        assert content.text == DOCUMENTS[6].page_content  # type: ignore[union-attr]
        kb.delete(source="/srv/library/b7.pdf")
        assert "b7.pdf" not in {resource.name for resource in (await client.list_resources()).resources}
        for uri in (
            by_name["b7.pdf"],
            "ragweave://sources/x",
            "ragweave://sources/..%2F..%2Fetc%2Fpasswd",
            "file:///etc",
        ):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
    assert "/srv" not in str(resources)


@pytest.mark.loopback
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_research_reports_each_step_and_section_by_http(kb: KnowledgeBase, mode: Any) -> None:
    def script(call: ModelCall) -> str:
        return "1. Who built bridge 7?" if "Write for each section" in call.text else "Ada Brenner built bridge 7."

    reported: list[tuple[float, str | None]] = []

    async def progress(step: float, _total: float | None, message: str | None) -> None:
        reported.append((step, message))

    config = uvicorn.Config(http_app(library(kb, script)), port=0, log_level="error")
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve())
    while not running.started:
        await asyncio.sleep(0.01)
    port = running.servers[0].sockets[0].getsockname()[1]
    async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
        question = {"question": "What of the bridges?"}
        result = await client.call_tool("research", question, progress_callback=progress)
    running.should_exit = True
    await task
    structured: Any = result.structured_content
    assert structured["answer"].startswith("# What of the bridges?")
    assert structured["annotations"]
    assert [step for step, _ in reported] == [*range(1, len(reported) + 1)]
    assert [message for _, message in reported if message and message.startswith("write")] == [
        "write: What of the bridges?",
        "write: Who built bridge 7?",
    ]


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

    class Broken:
        def sources(self) -> None:
            script(None)

    retriever = Bm25Retriever.from_documents(DOCUMENTS).model_copy(update={"collection": Broken()})
    broken = create_server(build_graph("concat", model="extractive", retriever=retriever), retriever)
    for mode in ("auto", "legacy"):
        async with Client(broken, mode=mode) as client:
            for work in (client.list_resources(), client.read_resource("ragweave://sources/x")):
                with pytest.raises(MCPError) as caught:
                    await work
                assert "/srv" not in str(caught.value)
    async with Client(server(script)) as client:
        result: Any = await client.call_tool("ask", {"question": "Who?"})
    assert result.is_error
    assert "/srv" not in result.content[0].text
    assert "operator's log" in result.content[0].text


async def test_by_http_no_stream_stays_open_and_no_other_host_is_answered() -> None:
    app = http_app(server(), AccessLimits(hosts=LOCAL_HOSTS))
    web = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8000")
    assert (await web.get("/mcp", headers={"accept": "text/event-stream"})).status_code == 405
    assert (await web.post("/mcp", json={}, headers={"host": "evil.example"})).status_code == 421
