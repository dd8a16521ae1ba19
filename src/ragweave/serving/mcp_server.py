"""A method and its knowledge base as tools of the Model Context Protocol: `ask` and `search`.

This uses version 2 of the protocol's own SDK. Packages that pin `mcp<2`, such as LangChain's adapters, can't be installed
beside it, but can call this server from another environment.
"""

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from langchain_core.retrievers import BaseRetriever
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ragweave.errors import PromptTooLongError
from ragweave.graphs import MethodGraph
from ragweave.serving.guard import AccessLimits, Guard
from ragweave.tools.footnotes import MEANING, footnotes, label_of, with_marks
from ragweave.tools.retrieval.base import find_with
from ragweave.tools.text.untrusted import one_line, untrusted

_LOG = logging.getLogger("ragweave.serving")

Question = Annotated[str, Field(description="The question, understandable by itself.", max_length=4_000)]
Query = Annotated[str, Field(description="What to look for.", max_length=4_000)]
Count = Annotated[int, Field(description="Maximum number of passages.", ge=1, le=20)]


def create_server(graph: MethodGraph, retriever: BaseRetriever | None) -> MCPServer:
    """Return an MCP server over a method.

    Args:
        graph: The method, built with `citations=True`.
        retriever: What `search` searches; None: the server has no such tool.
    """
    server = MCPServer("ragweave", instructions="Answers from one knowledge base, with quotes.")

    @server.tool(structured_output=False)
    async def ask(question: Question) -> str:
        """Answer a question from the knowledge base, quoting the sentences that support the answer."""
        if not question.strip():
            raise ToolError("the question is empty")
        return answer_text(await _safely(graph.ainvoke({"question": question})))

    if retriever is not None:

        @server.tool(structured_output=False)
        async def search(query: Query, k: Count = 5) -> str:
            """Return the passages of the knowledge base that match a query best, each with its source."""
            if not query.strip():
                raise ToolError("the query is empty")
            return passages_text(await _safely(asyncio.to_thread(find_with, retriever, query, k)))

    return server


def answer_text(output: dict[str, Any]) -> str:
    """Return a method's output as text for a model: the answer with numbered quotes and their sources."""
    cited = output["citations"]
    notes = footnotes(cited, output["passages"])
    quotes = [f"[{note.number}] {one_line(note.label)}: “{one_line(note.quote['text'])}”" for note in notes]
    return "\n".join([with_marks(output["answer"], cited, "[unsupported]"), *quotes, *([MEANING] if quotes else [])])


def passages_text(passages: Sequence[Document]) -> str:
    """Return passages as text for a model: numbered blocks with their sources, which no passage can forge."""
    blocks = (
        f'<passage {number} source="{one_line(label_of(doc))}">\n{untrusted(doc.page_content).strip()}\n</passage>'
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
    except (PromptTooLongError, ContextOverflowError) as error:
        _LOG.warning("a tool call was refused: %s", error)
        raise ToolError("the question is too long for the model: ask a shorter one") from error
    except Exception as error:
        _LOG.error("a tool call failed", exc_info=error)
        raise ToolError("it failed: the operator's log says why") from error


def http_app(server: MCPServer, *, host: str, limits: AccessLimits | None = None) -> ASGIApp:
    """Return the server as a streamable-HTTP app under `/mcp`, without sessions.

    Args:
        server: The server.
        host: The address that the server listens on; on a local address, other host names are refused.
        limits: Keys, sizes, concurrency; None: the defaults, without a key.
    """
    limits = limits or AccessLimits()
    app = server.streamable_http_app(
        stateless_http=True, json_response=True, host=host, max_request_body_size=limits.request_bytes
    )

    async def without_streams(scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] == "http" and scope["method"] == "GET"
        ):  # a stream of its own, on which nothing would ever come
            await PlainTextResponse("there are no streams: POST", 405, {"allow": "POST"})(scope, receive, send)
        else:
            await app(scope, receive, send)

    return Guard(without_streams, limits)
