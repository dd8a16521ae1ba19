"""A method and its knowledge base as tools of the Model Context Protocol: `ask` and `search`.

By the protocol's own SDK, version 2. Packages that pin `mcp<2` (LangChain's adapters among them)
can't stand beside it in one environment, but talk to this server from theirs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Annotated, Any

from langchain_core.documents import Document
from langchain_core.exceptions import ContextOverflowError
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ragweave.errors import PromptTooLongError
from ragweave.graphs import CompiledGraph
from ragweave.nodes.retrieve import Retriever
from ragweave.serving.keys import Keys
from ragweave.tools.footnotes import footnotes, label, with_marks
from ragweave.tools.retrieval.base import takes_k
from ragweave.tools.text.untrusted import one_line, render_passages

_LOG = logging.getLogger("ragweave.serving")

Question = Annotated[
    str, Field(description="The question, understandable by itself.", max_length=4_000)
]
Query = Annotated[str, Field(description="What to look for.", max_length=4_000)]
Count = Annotated[int, Field(description="Most passages to return.", ge=1, le=20)]


def create_server(graph: CompiledGraph, retriever: Retriever | None) -> MCPServer:
    """Return an MCP server over a method.

    Args:
        graph: The method, built with `citations=True`.
        retriever: What `search` looks into; None: there is no such tool.
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
            """Return the passages of the knowledge base that match a query best."""
            if not query.strip():
                raise ToolError("the query is empty")
            settings: dict[str, Any] = {"k": k} if takes_k(retriever) else {}
            return passages_text((await _safely(retriever.ainvoke(query, **settings)))[:k])

    return server


def answer_text(output: dict[str, Any]) -> str:
    """Return a method's output as a model reads it: the answer with its numbered quotes."""
    cited, passages = output["citations"], output["passages"]
    lines = [with_marks(output["answer"], cited, "[unsupported]")]
    quotes = [
        f"[{one.number}] {one_line(label(one))}: “{one_line(one.quote['text'])}”"
        for one in footnotes(cited, passages)
    ]
    return "\n".join([*lines, *quotes])


def passages_text(passages: Sequence[Document]) -> str:
    """Return passages as a model reads them: numbered blocks, which no passage can forge."""
    return render_passages(passages) or "No passage matches."


async def _safely(work: Awaitable[Any]) -> Any:
    """Await a run; what goes wrong in it is logged here, and said to the caller in general terms.

    What the caller can mend is said: that the question is too long.

    Raises:
        ToolError: It failed.
    """
    try:
        return await work
    except (PromptTooLongError, ContextOverflowError) as error:
        _LOG.warning("a tool call was refused: %s", error)
        said = "the question is too long for the model: ask a shorter one"
        raise ToolError(said) from error
    except Exception as error:
        _LOG.error("a tool call failed", exc_info=error)
        raise ToolError("it failed: the operator's log says why") from error


class NeedsKey:
    """An ASGI app that lets only callers with a key through."""

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        """Guard `app`; without keys anyone may call.

        Raises:
            UsageError: A key is empty.
        """
        self._app = app
        self._keys = Keys(keys)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through, or answer 401."""
        given = dict(scope.get("headers") or ()).get(b"authorization", b"")
        if scope["type"] != "http" or self._keys.admit(given):
            await self._app(scope, receive, send)
            return
        refusal = JSONResponse({"error": "a valid key is needed: Authorization: Bearer KEY"}, 401)
        await refusal(scope, receive, send)


class AtOnce:
    """An ASGI app that answers so many requests at once.

    Idle connections count for nothing, nor do streams that a client opens by GET to listen.
    """

    def __init__(self, app: ASGIApp, most: int) -> None:
        """Let `most` requests at once into `app`."""
        self._app = app
        self._free = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a call through, or answer 503."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        if not self._free:
            said = {"error": "too many requests at once: try again"}
            await JSONResponse(said, 503, {"retry-after": "1"})(scope, receive, send)
            return
        self._free -= 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._free += 1


def http_app(
    server: MCPServer,
    *,
    host: str,
    keys: Sequence[str] = (),
    request_bytes: int = 1_000_000,
    concurrency: int = 8,
) -> ASGIApp:
    """Return the server as an app of streamable HTTP, under `/mcp`, without sessions.

    Args:
        server: The server.
        host: The address that it listens on; on this machine's own, other host names are refused.
        keys: Keys, one of which every call must bring; none: anyone may call.
        request_bytes: Most bytes of a request.
        concurrency: Requests in flight at once; what comes on top is answered with 503.
    """
    app = server.streamable_http_app(
        stateless_http=True, json_response=True, host=host, max_request_body_size=request_bytes
    )
    return NeedsKey(AtOnce(app, concurrency), keys)
