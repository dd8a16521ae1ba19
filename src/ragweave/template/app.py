"""A chat over your documents: a page with streamed answers and quoted sources, and the same graph for LangGraph.

    pip install "ragweave[serve,offline]"
    python app.py            # then open http://127.0.0.1:8000
    langgraph dev            # the same with LangGraph's API and Studio (extra `studio`)

The files in `documents/` are indexed at the first question; after a change, the next start reads them again.
RAGWEAVE_MODEL and RAGWEAVE_METHOD choose the model (default: extractive) and the method (default: concat_pf). If APP_KEYS
has keys, LangGraph's server requires one as a bearer token. The page's threads are kept in memory: give `chat` another
checkpointer to store them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, StreamingResponse
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk import Auth
from pydantic import BaseModel, Field

from ragweave import KnowledgeBase, build_chat
from ragweave.errors import RagweaveError
from ragweave.tools.footnotes import MEANING

HERE = Path(__file__).parent
LOG = logging.getLogger("app")
TRY = ("Which files does the app answer from?", "How is another model chosen?")
"""Example questions on the page."""

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w-]+$")]
Chat = CompiledStateGraph[Any, Any, Any, Any]


class Turn(BaseModel):
    """A message from the user."""

    question: Annotated[str, Field(max_length=2000, pattern=r"\S")]
    thread: Name = "main"


@cache
def knowledge_base() -> KnowledgeBase:
    """Open the knowledge base, and index what has changed in `documents/`."""
    kb = KnowledgeBase.open_or_create(HERE / "kb")
    kb.index_paths([HERE / "documents"])
    return kb


def conversation(checkpointer: Any = None) -> Chat:
    """Build the conversation over the documents."""
    return build_chat(
        os.environ.get("RAGWEAVE_METHOD", "concat_pf"),
        model=os.environ.get("RAGWEAVE_MODEL", "extractive"),
        retriever=knowledge_base().as_retriever(),
        checkpointer=checkpointer,
    )


@cache
def chat() -> Chat:
    """Return the page's conversation."""
    return conversation(InMemorySaver())


async def graph() -> Chat:
    """Return the conversation for LangGraph's server, which brings its own checkpointer."""
    return await asyncio.to_thread(conversation)


auth = Auth()


@auth.authenticate
async def authenticated(authorization: str | None) -> str:
    """Admit callers of LangGraph's server that send a key from APP_KEYS; all callers if APP_KEYS is empty."""
    keys = os.environ.get("APP_KEYS", "").split()
    if keys and (authorization or "").removeprefix("Bearer ") not in keys:
        raise Auth.exceptions.HTTPException(status_code=401, detail="this app needs a key, as a bearer token")
    return "user"


def create_app(chat: Callable[[], Chat]) -> FastAPI:
    """Return the page's app; `chat` returns a conversation that has a checkpointer."""
    app = FastAPI(title="Ask your documents")
    shown_page = (HERE / "page.html").read_text("utf-8").replace("TRY = []", f"TRY = {json.dumps(TRY)}")

    @app.get("/", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        return HTMLResponse(shown_page, headers={"Content-Security-Policy": policy + "connect-src 'self'"})

    @app.post("/ask")
    async def ask(turn: Turn) -> StreamingResponse:
        return StreamingResponse(events(chat, turn), media_type="text/event-stream")

    @app.get("/messages/{thread}")
    async def messages(thread: Name) -> list[dict[str, Any]]:
        conversation = await asyncio.to_thread(chat)
        state = await conversation.aget_state({"configurable": {"thread_id": thread}})
        return [{"role": message.type, **shown(message)} for message in state.values.get("messages", [])]

    return app


async def events(chat: Callable[[], Chat], turn: Turn) -> AsyncIterator[str]:
    """Yield server-sent events: the method's `step`s, the answer's `token`s, one `answer`.

    A run that fails ends with an `error` instead.
    """
    config: RunnableConfig = {"configurable": {"thread_id": turn.thread}}
    update = {"messages": [HumanMessage(turn.question)]}
    modes, last = ["tasks", "messages", "values"], {}
    try:
        conversation = await asyncio.to_thread(chat)
        async for path, mode, data in conversation.astream(update, config, stream_mode=modes, subgraphs=True):
            if mode == "tasks" and "triggers" in data:
                yield event("step", {"node": data["name"]})
            elif mode == "messages" and data[0].text:
                yield event("token", {"text": data[0].text})
            elif mode == "values" and not path:
                last = data
    except RagweaveError as error:
        yield event("error", {"text": str(error)})
        return
    except Exception:  # such as an unreachable model server; the stream has begun, so the page must be told
        LOG.exception("a turn failed")
        yield event("error", {"text": "the answer failed: the server's log says why"})
        return
    answer = shown(last["messages"][-1], last["passages"])
    yield event("answer", {**answer, "question": last["question"], "status": last["status"]})


def event(name: str, data: dict[str, Any]) -> str:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def shown(message: BaseMessage, passages: Sequence[Document] = ()) -> dict[str, Any]:
    """Return what the page shows of a message: its parts with their marks, and its sources.

    The quotes come from the message's annotations. In an earlier turn, whose passages are gone, a
    source shows its quotes alone.
    """
    text = message.text
    notes: list[Any] = [note for block in message.content_blocks for note in block.get("annotations", ())]
    spans: dict[tuple[int, int], list[int]] = {}
    quoted: dict[str, list[Any]] = {}
    for note in notes:
        cited = note["type"] == "citation"
        span = note if cited else note["value"]
        marks = spans.setdefault((span["start_index"], span["end_index"]), [])
        if cited:
            marks.append(note["extras"]["number"])
            quoted.setdefault(note["extras"]["passage"], []).append(note)
    parts, done = [], 0
    for (start, end), marks in sorted(spans.items()):
        parts += [{"text": text[done:start]}, {"text": text[start:end], "marks": marks}]
        done = end
    parts.append({"text": text[done:]})
    known = {doc.id or "": doc for doc in passages}
    sources = [source(known.get(name), quotes) for name, quotes in quoted.items()]
    sources += [source(doc, []) for name, doc in known.items() if name not in quoted]
    return {
        "text": text,
        "parts": [part for part in parts if part["text"]],
        "sources": sources,
        "meaning": MEANING if quoted else "",
    }


def source(doc: Document | None, quotes: list[Any]) -> dict[str, Any]:
    """Return a passage as a card: its title and place, and its text with numbered quotes."""
    if doc is None:
        pieces = [{"text": quote["cited_text"], "mark": quote["extras"]["number"]} for quote in quotes]
        return {"title": quotes[0]["title"], "place": "", "pieces": pieces}
    text, done, pieces = doc.page_content, 0, []
    marked = {quote["extras"]["start"]: quote["extras"] for quote in quotes}
    for start, quote in sorted(marked.items()):
        pieces.append({"text": text[done:start]})
        pieces.append({"text": text[max(done, start) : quote["end"]], "mark": quote["number"]})
        done = quote["end"]
    pieces.append({"text": text[done:]})
    place = str(doc.metadata.get("source") or "")
    name = place if "://" in place else PurePath(place).name
    return {
        "title": str(doc.metadata.get("title") or name or doc.id),
        "place": name,
        "pieces": [piece for piece in pieces if piece["text"]],
    }


web = create_app(chat)

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(web, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))
