"""A method and its knowledge base for agents, by the Model Context Protocol.

Tools: `ask`, `search`, `fetch`, and `research` if that method is served, too. Results are text for a model and, by
the tools' output schemas, structured. Sources are resources. `ask` and `research` report each step as progress. All read
through one retriever, so a caller gets nothing that its filter forbids.

This uses version 2 of the protocol's own SDK. Packages that pin `mcp<2`, such as LangChain's adapters, can't be installed
beside it, but can call this server from another environment.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Sequence
from itertools import islice
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError, ToolError
from mcp.types import CallToolResult, Resource, TextContent
from pydantic import BaseModel, Field
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ragweave.graphs import MethodGraph
from ragweave.serving.guard import AccessLimits, Guard, api_error
from ragweave.state import Status
from ragweave.tools.footnotes import MEANING, address_of, cited_content, file_of, footnotes, label_of, with_marks
from ragweave.tools.retrieval.base import find_with, known_of
from ragweave.tools.text.untrusted import one_line, untrusted

MAX_RESOURCES = 1_000
"""Maximum sources that are listed as resources; of more, the first."""
_RESOURCE = "ragweave://sources/"
_ASK = "Answer a question from the knowledge base, quoting the sentences that support the answer."
_RESEARCH = "Write a report on a question from the knowledge base, section by section. It takes many model calls."

Question = Annotated[str, Field(description="The question, understandable by itself.", max_length=4_000)]
Query = Annotated[str, Field(description="What to look for.", max_length=4_000)]
Count = Annotated[int, Field(description="Maximum number of passages.", ge=1, le=20)]
PassageId = Annotated[str, Field(description="The id of a passage, from ask or search.", max_length=1_000)]


class Span(BaseModel):
    """A part of the answer, by the indices of its characters; the end is exclusive."""

    start_index: int
    end_index: int


class Cited(Span):
    """A quote that supports a part of the answer."""

    cited_text: str
    passage: str
    """The id of the passage: `fetch` returns it."""
    title: str
    """Where it stands."""
    url: str
    file: str
    page: int | None


class Answer(BaseModel):
    """An answer with its quotes."""

    answer: str
    status: Status
    annotations: list[Cited]
    unsupported: list[Span]
    """Parts that no passage supports."""


class Passage(BaseModel):
    """A passage."""

    id: str
    title: str
    """Where it stands."""
    url: str
    text: str


class Passages(BaseModel):
    """Passages, best first."""

    results: list[Passage]


class _Progress(AsyncCallbackHandler):
    """Reports each node of a run to the client."""

    def __init__(self, context: Context) -> None:
        self._context, self._steps = context, 0

    async def on_chain_start(self, serialized: Any, inputs: Any, *, metadata: Any = None, **run: Any) -> None:  # noqa: ARG002
        node = (metadata or {}).get("langgraph_node")
        if node and run.get("name") == node:
            self._steps += 1
            sections = inputs["plan"][len(inputs["sections"]) :] if node == "write" and "plan" in inputs else []
            await self._context.report_progress(self._steps, message=one_line(": ".join([node, *sections[:1]])))


class _Server(MCPServer):
    """A server whose resources are the sources that its retriever leads to, as they are now."""

    def __init__(self, collection: Any) -> None:
        super().__init__("ragweave", instructions="Answers from one knowledge base, with quotes.")
        self._collection = collection
        if collection is not None:
            self.resource(_RESOURCE + "{name}", description="The text of a source.")(self._text)

    def _sources(self) -> dict[str, str]:
        """Return the sources' keys by their resources' names, which don't show folders of this machine."""
        keys = [source.key for source in self._collection.sources()] if self._collection is not None else []
        return {hashlib.sha256(key.encode()).hexdigest()[:16]: key for key in keys}

    async def list_resources(self) -> list[Resource]:
        """List the first `MAX_RESOURCES` sources."""
        sources = (await _safely(asyncio.to_thread(self._sources))).items()
        listed = islice(sources, MAX_RESOURCES)
        return [Resource(uri=_RESOURCE + name, name=file_of(key), mime_type="text/plain") for name, key in listed]

    def _text(self, name: str) -> str:
        key = self._sources().get(name)
        if key is None:
            raise ResourceNotFoundError("there is no such source")
        return "\n\n".join(doc.page_content for doc in self._collection.view({"source": key}).passages())


def create_server(
    graph: MethodGraph, retriever: BaseRetriever | None, research: MethodGraph | None = None
) -> MCPServer:
    """Return an MCP server over a method.

    Args:
        graph: The method, built with `citations=True`.
        retriever: What `search` searches, and whose passages and sources can be read; None: nothing.
        research: The method `research`, for a tool of its own; None: no such tool.
    """
    server = _Server(known_of(retriever, "collection"))
    _add_method(server, "ask", _ASK, graph)
    if research is not None:
        _add_method(server, "research", _RESEARCH, research)
    if retriever is not None:
        _add_search(server, retriever)
    return server


def _add_method(server: MCPServer, name: str, about: str, graph: MethodGraph) -> None:
    @server.tool(name, description=about)
    async def answer(question: Question, context: Context) -> Annotated[CallToolResult, Answer]:
        if not question.strip():
            raise ToolError("the question is empty")
        output = await _safely(graph.ainvoke({"question": question}, {"callbacks": [_Progress(context)]}))
        content = cited_content(output, "openai")[0]
        return _result(answer_text(output), Answer(answer=content["text"], status=output["status"], **content))


def _add_search(server: MCPServer, retriever: BaseRetriever) -> None:
    @server.tool()
    async def search(query: Query, k: Count = 5) -> Annotated[CallToolResult, Passages]:
        """Return the passages of the knowledge base that match a query best, each with its source."""
        if not query.strip():
            raise ToolError("the query is empty")
        docs = await _safely(asyncio.to_thread(find_with, retriever, query, k))
        return _result(passages_text(docs), Passages(results=[_passage(doc) for doc in docs]))

    places = known_of(retriever, "places")
    if places is None:
        return

    @server.tool()
    async def fetch(id: PassageId) -> Annotated[CallToolResult, Passage]:  # noqa: A002 - as clients know it
        """Return a passage of the knowledge base by its id."""
        docs = await _safely(asyncio.to_thread(places, id, 0))
        if not docs:
            raise ToolError("there is no such passage")
        return _result(passages_text(docs), _passage(docs[0]))


def _result(text: str, structured: BaseModel) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=structured.model_dump(mode="json")
    )


def _passage(doc: Document) -> Passage:
    address = address_of(doc.metadata.get("source"), doc.id)
    return Passage(id=str(doc.id), title=label_of(doc), url=address, text=doc.page_content)


def answer_text(output: dict[str, Any]) -> str:
    """Return a method's output as text for a model: the answer with numbered quotes and their sources."""
    cited = output["citations"]
    notes = footnotes(cited, output["passages"])
    quotes = [f"[{note.number}] {one_line(note.label)}: “{one_line(note.quote['text'])}”" for note in notes]
    return "\n".join([with_marks(output["answer"], cited, "[unsupported]"), *quotes, *([MEANING] if quotes else [])])


def passages_text(passages: Sequence[Document]) -> str:
    """Return passages as text for a model: numbered blocks with ids and sources, which no passage can forge."""
    blocks = (
        f'<passage {number} id="{one_line(str(doc.id))}" source="{one_line(label_of(doc))}">\n'
        f"{untrusted(doc.page_content).strip()}\n</passage>"
        for number, doc in enumerate(passages, start=1)
    )
    return "\n".join(blocks) or "No passage matches."


async def _safely(work: Awaitable[Any]) -> Any:
    """Await a run; if it fails, the log has the reason and the caller gets a general message.

    Raises:
        ToolError: The run failed.
    """
    try:
        return await work
    except Exception as error:
        raise ToolError(str(api_error(error))) from error


def http_app(server: MCPServer, limits: AccessLimits | None = None) -> ASGIApp:
    """Return the server as a streamable-HTTP app under `/mcp`, without sessions; `limits` say who may call."""
    limits = limits or AccessLimits()
    # "": the guard checks host names
    app = server.streamable_http_app(stateless_http=True, host="", max_request_body_size=limits.request_bytes)

    async def without_streams(scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http" and scope["method"] == "GET"
        ):  # a stream of its own, on which nothing would ever come
            await PlainTextResponse("there are no streams: POST", 405, {"allow": "POST"})(scope, receive, send)
        else:
            await app(scope, receive, send)

    return Guard(without_streams, limits)
