"""A chat over your documents in one file: FastAPI, answers streamed, threads remembered.

    pip install "ragweave[examples]"
    python examples/chat_app.py            # then open http://127.0.0.1:8000

Set RAGWEAVE_MODEL (default: extractive), RAGWEAVE_METHOD (concat_pf) and RAGWEAVE_KB (a folder made
by `ragweave index`; default: the articles that ragweave brings).
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, StreamingResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from ragweave import KnowledgeBase, build_graph, chat_model
from ragweave.corpus import corpus_documents
from ragweave.errors import RagweaveError
from ragweave.tools.retrieval import Bm25Retriever

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w-]+$")]
RESTATE = "Restate the last question so that it can be understood alone. Write only the question."


class Chat(TypedDict):
    """What a thread remembers."""

    messages: Annotated[list[AnyMessage], add_messages]
    question: str
    """The last question, restated so that it stands alone."""


class Turn(BaseModel):
    """A message from the user."""

    question: Annotated[str, Field(max_length=2000, pattern=r"\S")]
    thread: Name = "main"


def build_chat(
    rag: Runnable[Any, Any], restater: Runnable[Any, Any] | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Put a method into a conversation.

    The method sees one question at a time, so a follow-up ("And who wrote it?") is restated
    first, where there is a model that can do it.
    """

    async def restate(state: Chat, config: RunnableConfig) -> dict[str, Any]:
        asked = state["messages"][-1].text
        if restater is None or len(state["messages"]) == 1:
            return {"question": asked}
        said = await restater.ainvoke([*state["messages"], HumanMessage(RESTATE)], config)
        return {"question": said.text.strip() or asked}

    async def answer(state: Chat, config: RunnableConfig) -> dict[str, Any]:
        out = await rag.ainvoke({"question": state["question"]}, config)
        places = [str(doc.metadata.get("title") or doc.id) for doc in out["passages"]]
        details = {"status": out["status"], "sources": list(dict.fromkeys(places))}
        return {"messages": [AIMessage(out["answer"], additional_kwargs=details)]}

    graph = StateGraph(Chat)
    graph.add_node("restate", restate)
    graph.add_node("answer", answer)
    graph.add_edge(START, "restate")
    graph.add_edge("restate", "answer")
    graph.add_edge("answer", END)
    return graph.compile(checkpointer=InMemorySaver())


def chat_from_environment() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the chat that the environment asks for."""
    spec = os.environ.get("RAGWEAVE_MODEL", "extractive")
    folder = os.environ.get("RAGWEAVE_KB")
    retriever: BaseRetriever = (
        KnowledgeBase.open(folder).as_retriever()
        if folder
        else Bm25Retriever.from_documents(corpus_documents())
    )
    method = os.environ.get("RAGWEAVE_METHOD", "concat_pf")
    # The extractive model quotes and can't restate: follow-ups then go out as they were typed.
    restater = None if spec.startswith("extractive") else chat_model(spec)
    return build_chat(build_graph(method, model=spec, retriever=retriever), restater)


def create_app(chat: CompiledStateGraph[Any, Any, Any, Any] | None = None) -> FastAPI:
    """Return the app; `chat` takes the place of the one from the environment."""
    app = FastAPI(title="ragweave chat")
    talk = chat or chat_from_environment()

    @app.get("/", response_class=HTMLResponse)
    async def page() -> str:
        return PAGE

    @app.post("/chat")
    async def ask(turn: Turn) -> StreamingResponse:
        return StreamingResponse(events(talk, turn), media_type="text/event-stream")

    @app.get("/threads/{thread}")
    async def remembered(thread: Name) -> list[dict[str, Any]]:
        state = await talk.aget_state({"configurable": {"thread_id": thread}})
        return [
            {"role": one.type, "text": one.text, **one.additional_kwargs}
            for one in state.values.get("messages", [])
        ]

    return app


async def events(chat: CompiledStateGraph[Any, Any, Any, Any], turn: Turn) -> AsyncIterator[str]:
    """Yield server-sent events: `token`s as they come, then one `answer`, or an `error`.

    A method may ask the model several times; `node` says which call a token belongs to, and the
    `answer` is what counts.
    """
    config: RunnableConfig = {"configurable": {"thread_id": turn.thread}}
    given = {"messages": [HumanMessage(turn.question)]}
    try:
        async for event in chat.astream_events(given, config, version="v2"):
            role = event.get("metadata", {}).get("ragweave_role")
            if event["event"] == "on_chat_model_stream" and role == "answer":
                node = event["metadata"]["ragweave_node"]
                yield sent("token", {"node": node, "text": event["data"]["chunk"].text})
            elif event["event"] == "on_chain_end" and not event["parent_ids"]:
                last = event["data"]["output"]["messages"][-1]
                yield sent("answer", {"text": last.text, **last.additional_kwargs})
    except RagweaveError as error:
        yield sent("error", {"text": str(error)})


def sent(event: str, data: dict[str, Any]) -> str:
    """Write one server-sent event."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


PAGE = """<!doctype html><meta charset="utf-8"><title>ragweave chat</title>
<style>body{font:16px system-ui;max-width:720px;margin:40px auto}input{width:80%;padding:8px}
p{white-space:pre-wrap}.dim{color:#777;font-size:13px}</style>
<h1>ragweave chat</h1><div id="log"></div>
<form><input name="q" autofocus placeholder="Ask something"> <button>Ask</button></form>
<script>
const log = document.getElementById("log"), thread = crypto.randomUUID();
const say = (text, kind) => { const p = document.createElement("p"); p.textContent = text;
  p.className = kind || ""; log.append(p); return p; };
document.forms[0].onsubmit = async (event) => {
  event.preventDefault();
  const box = event.target.q, question = box.value.trim();
  if (!question) return;
  box.value = ""; say("› " + question);
  const live = say("", "dim");
  const reply = await fetch("/chat", {method: "POST", headers: {"content-type": "application/json"},
    body: JSON.stringify({question, thread})});
  let rest = "", node = "";
  for await (const part of reply.body.pipeThrough(new TextDecoderStream())) {
    rest += part;
    let end;
    while ((end = rest.indexOf("\\n\\n")) >= 0) {
      const [head, body] = rest.slice(0, end).split("\\ndata: ");
      rest = rest.slice(end + 2);
      const data = JSON.parse(body);
      if (head === "event: token") {
        if (data.node !== node) { node = data.node; live.textContent += " [" + node + "] "; }
        live.textContent += data.text;
      } else { say(data.text); if (data.sources) say(data.sources.join(" · "), "dim"); }
    }
  }
};
</script>"""


def main() -> None:
    """Serve the chat on this machine."""
    import uvicorn

    try:
        app = create_app()
    except RagweaveError as error:
        raise SystemExit(f"chat_app: {error}") from error
    uvicorn.run(app, host="127.0.0.1", port=int(os.environ.get("PORT", "8000")))


if __name__ == "__main__":
    main()
