"""A chat over your documents: a page with streamed answers and quoted sources, and the same graph for LangGraph.

    pip install "ragweave[serve,offline]"
    python app.py            # then open http://127.0.0.1:8000
    langgraph dev            # the same with LangGraph's API and Studio (extra `studio`)

The files in `documents/` are indexed when the app starts, and whenever they change while it runs. Variables:

    RAGWEAVE_MODEL, RAGWEAVE_METHOD    the model (default: extractive) and the method (default: concat_pf)
    APP_KEYS                           keys, one of which each caller must give; without any, only this machine may call
    APP_HOST, PORT                     where to listen; an address that other machines reach needs APP_KEYS

Conversations are kept in `history.sqlite`, and rated answers in `feedback.jsonl`, for `ragweave tune` and `eval`: a
thumb up makes an answer a right one; to the others add the right `answers`, or let a judge decide.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from history import History
from langchain_core.messages import AIMessage, HumanMessage
from langgraph_sdk import Auth
from library import TYPES, Library
from pydantic import BaseModel, Field

from ragweave import build_chat
from ragweave.errors import PromptTooLongError, RunTimeoutError, UsageError
from ragweave.serving.guard import LOCAL_HOSTS, AccessLimits, Guard, caller_of
from ragweave.tools.footnotes import MEANING, label_of

HERE = Path(__file__).parent
LOG = logging.getLogger("app")
TRY = ("Which files does the app answer from?", "How is another model chosen?")
"""Example questions on the page."""
UPLOAD_BYTES = 20_000_000
"""Maximum bytes of an uploaded file."""
TURNS = 8
"""Questions that are answered at once."""

Name = Annotated[str, Field(min_length=16, max_length=64, pattern=r"^[\w-]+$")]


class Turn(BaseModel):
    """A question, and the conversation that it belongs to: a new one if it names none."""

    question: Annotated[str, Field(max_length=2000, pattern=r"\S")]
    thread: Name = Field(default_factory=lambda: uuid.uuid4().hex)


class Rating(BaseModel):
    """What a reader thought of an answer."""

    turn: Name
    thumb: Literal["up", "down"]


def conversation(retriever: Any) -> Any:
    """Build the conversation over a retriever."""
    method, model = os.environ.get("RAGWEAVE_METHOD", "concat_pf"), os.environ.get("RAGWEAVE_MODEL", "extractive")
    return build_chat(method, model=model, retriever=retriever)


library = Library(HERE / "documents", HERE / "kb", conversation)


async def graph() -> Any:
    """Return the conversation for LangGraph's server, which brings its own checkpointer."""
    library.start()
    await asyncio.to_thread(library.ready.wait)
    return library.chat


def keys() -> list[str]:
    """Return the keys that callers may give."""
    return os.environ.get("APP_KEYS", "").split()


auth = Auth()


@auth.authenticate
async def authenticated(authorization: str | None, path: str) -> str:
    """Admit callers of LangGraph's server that send a key from APP_KEYS; all callers if APP_KEYS is empty."""
    caller = caller_of(authorization or "", keys())
    if caller is None and path != "/":  # the page itself asks for the key
        raise Auth.exceptions.HTTPException(status_code=401, detail="this app needs a key, as a bearer token")
    return caller or "anyone"


@auth.on
async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str] | None:
    """Let a user of LangGraph's server see and change only what the same user made; all may use the assistants."""
    user = ctx.user.identity
    if ctx.resource == "store":
        namespace = [*(value.get("namespace") or ())]
        value["namespace"] = tuple(namespace if namespace[:1] == [user] else [user, *namespace])
        return None
    if ctx.resource == "assistants" and ctx.action in ("read", "search"):
        return None
    value.setdefault("metadata", {})["owner"] = user
    return {"owner": user}


def create_app(library: Library, history: History) -> FastAPI:
    """Return the page's app."""

    @asynccontextmanager
    async def reading(_app: FastAPI) -> AsyncIterator[None]:
        library.start()
        yield

    app = FastAPI(title="Ask your documents", docs_url=None, redoc_url=None, openapi_url=None, lifespan=reading)
    limits = AccessLimits(
        api_keys=keys(),
        hosts=() if keys() else LOCAL_HOSTS,
        open_paths=("/",),
        request_bytes=UPLOAD_BYTES,
        body_seconds=120,
        concurrency=TURNS,
    )
    app.add_middleware(Guard, limits=limits)
    settings = json.dumps({"tries": TRY, "types": TYPES, "bytes": UPLOAD_BYTES, "key": bool(keys())})
    shown_page = (HERE / "page.html").read_text("utf-8").replace("SETTINGS = {}", f"SETTINGS = {settings}")

    @app.get("/", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; base-uri 'none'; "
        policy += "form-action 'none'; frame-ancestors 'none'; connect-src 'self'; img-src blob:"
        return HTMLResponse(shown_page, headers={"Content-Security-Policy": policy})

    @app.get("/status")
    async def status() -> dict[str, Any]:
        return {"progress": library.progress, "notices": library.notices[:20]}

    @app.put("/documents/{name}", status_code=201)
    async def upload(name: str, request: Request) -> None:
        try:
            await asyncio.to_thread(library.add, name, await request.body())
        except UsageError as error:
            raise HTTPException(400, str(error)) from error

    @app.get("/sources/{passage:path}")
    async def picture(passage: str, start: int, end: int, at: int = 0) -> Response:
        places = await asyncio.to_thread(library.evidence, {"passage": passage, "start": start, "end": end})
        is_there = 0 <= at < len(places)
        page = await asyncio.to_thread(places.picture, at) if is_there else None
        shown = places.table(at) if is_there and page is None else page
        if not shown:
            raise HTTPException(404, (places[0]["note"] if places else "") or "there is no page to show")
        kind = "text/html" if page is None else "image/png"
        return Response(shown, media_type=kind, headers={"x-pages": str(len(places))})

    add_turns(app, library, history)
    return app


def add_turns(app: FastAPI, library: Library, history: History) -> None:
    """Add the paths of questions and answers."""

    @app.get("/turns/{thread}")
    async def turns(thread: Name, request: Request) -> list[dict[str, Any]]:
        return await asyncio.to_thread(history.turns, request.scope["caller"], thread)

    @app.post("/ask")
    async def ask(turn: Turn, request: Request) -> StreamingResponse:
        answering = events(library, history, request.scope["caller"], turn)
        return StreamingResponse(answering, media_type="text/event-stream")

    @app.post("/thumb", status_code=204)
    async def thumb(rating: Rating, request: Request) -> None:
        if not await asyncio.to_thread(history.rate, request.scope["caller"], rating.turn, rating.thumb):
            raise HTTPException(404, "there is no such answer")


async def events(library: Library, history: History, caller: str, turn: Turn) -> AsyncIterator[str]:
    """Yield server-sent events: the method's `step`s, the answer's `token`s, one `answer`.

    A run that fails ends with an `error` instead. A turn whose reader leaves is stopped, and is not remembered.
    """
    modes, last = ["tasks", "messages", "values"], {}
    try:
        while not library.ready.is_set():
            yield event("step", {"progress": library.progress})
            await asyncio.sleep(0.5)
        earlier = await asyncio.to_thread(history.turns, caller, turn.thread)
        pairs = [(HumanMessage(past["asked"]), AIMessage(past["text"])) for past in earlier]
        given = {"messages": [message for pair in pairs for message in pair] + [HumanMessage(turn.question)]}
        async for path, mode, data in library.chat.astream(given, stream_mode=modes, subgraphs=True):
            if mode == "tasks" and "triggers" in data:
                yield event("step", {"node": data["name"]})
            elif mode == "messages" and data[0].text:
                yield event("token", {"text": data[0].text})
            elif mode == "values" and not path:
                last = data
        answer = shown(last)
        name = await asyncio.to_thread(history.add, caller, turn.thread, turn.question, answer)
        yield event("answer", {**answer, "thread": turn.thread, "turn": name})
    except (PromptTooLongError, RunTimeoutError) as error:
        yield event("error", {"text": str(error)})
    except Exception:  # such as an unreachable model server; the stream has begun, so the page must be told
        LOG.exception("a turn failed")
        yield event("error", {"text": "the answer failed: the server's log says why"})


def event(name: str, data: dict[str, Any]) -> str:
    """Return a server-sent event."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def shown(output: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of an answer: its text, the annotations of its message, and the passages."""
    message = output["messages"][-1]
    notes = [note for block in message.content_blocks for note in block.get("annotations", ())]
    passages = [{"id": doc.id, "title": label_of(doc), "text": doc.page_content} for doc in output["passages"]]
    answer = {"text": message.text, "notes": notes, "passages": passages, "meaning": MEANING}
    return {**answer, "question": output["question"], "status": output["status"]}


web = create_app(library, History(HERE / "history.sqlite", HERE / "feedback.jsonl"))

if __name__ == "__main__":
    from ragweave.serving.guard import is_local
    from ragweave.serving.server import free_address, run_server

    host = os.environ.get("APP_HOST", "127.0.0.1")
    if not is_local(host) and not keys():
        raise SystemExit(f"{host} can be reached from other machines: set APP_KEYS to keys that callers must give")
    port, url = free_address(host, int(os.environ.get("PORT", "8000")))
    print(f"{url} answers from {library.documents}")  # noqa: T201
    run_server(web, host, port)
