"""A chat over your documents in one file: answers streamed, their sources quoted, follow-ups.

    pip install "ragweave[examples]"
    python examples/chat_app.py            # then open http://127.0.0.1:8000

Set RAGWEAVE_MODEL (default: extractive), RAGWEAVE_METHOD (concat_pf) and RAGWEAVE_KB (a folder made
by `ragweave index`; default: the articles that ragweave brings). Threads are kept in memory: give
`build_chat` another checkpointer of LangGraph to keep them longer.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import PurePath
from typing import Annotated, Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, StreamingResponse
from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph
from pydantic import BaseModel, Field

from ragweave import KnowledgeBase, build_chat
from ragweave.corpus import corpus_documents
from ragweave.errors import RagweaveError
from ragweave.tools.retrieval import Bm25Retriever

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[\w-]+$")]
Chat = CompiledStateGraph[Any, Any, Any, Any]
LOG = logging.getLogger("chat_app")
TRY = (
    "What does BlendFilter blend?",
    "Which measure suits fact verification?",
    "Which method asks a small proxy model first?",
)
"""Questions to begin with, about the articles that ragweave brings."""


class Turn(BaseModel):
    """A message from the user."""

    question: Annotated[str, Field(max_length=2000, pattern=r"\S")]
    thread: Name = "main"


def chat_from_environment() -> Chat:
    """Build the chat that the environment asks for."""
    folder = os.environ.get("RAGWEAVE_KB")
    retriever: BaseRetriever = (
        KnowledgeBase.open(folder).as_retriever() if folder else Bm25Retriever.from_documents(corpus_documents())
    )
    return build_chat(
        os.environ.get("RAGWEAVE_METHOD", "concat_pf"),
        model=os.environ.get("RAGWEAVE_MODEL", "extractive"),
        retriever=retriever,
        checkpointer=InMemorySaver(),
    )


def create_app(chat: Chat | None = None) -> FastAPI:
    """Return the app; `chat`, which needs a checkpointer, replaces the one from the environment."""
    app = FastAPI(title="ragweave chat")
    talk = chat or chat_from_environment()
    bundled = chat is None and not os.environ.get("RAGWEAVE_KB")
    shown_page = PAGE.replace("TRY = []", f"TRY = {json.dumps(TRY if bundled else ())}")

    @app.get("/", response_class=HTMLResponse)
    async def page() -> HTMLResponse:
        policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
        return HTMLResponse(shown_page, headers={"Content-Security-Policy": policy + "connect-src 'self'"})

    @app.post("/chat")
    async def ask(turn: Turn) -> StreamingResponse:
        return StreamingResponse(events(talk, turn), media_type="text/event-stream")

    @app.get("/threads/{thread}")
    async def remembered(thread: Name) -> list[dict[str, Any]]:
        state = await talk.aget_state({"configurable": {"thread_id": thread}})
        return [{"role": one.type, **shown(one)} for one in state.values.get("messages", [])]

    return app


async def events(chat: Chat, turn: Turn) -> AsyncIterator[str]:
    """Yield server-sent events: `step`s of the method, the answer's `token`s, one `answer`.

    A run that fails ends with an `error` instead.
    """
    config: RunnableConfig = {"configurable": {"thread_id": turn.thread}}
    given = {"messages": [HumanMessage(turn.question)]}
    modes, last = ["tasks", "messages", "values"], {}
    try:
        async for path, mode, data in chat.astream(given, config, stream_mode=modes, subgraphs=True):
            if mode == "tasks" and "triggers" in data:
                yield sent("step", {"node": data["name"]})
            elif mode == "messages" and data[0].text:
                yield sent("token", {"text": data[0].text})
            elif mode == "values" and not path:
                last = data
    except RagweaveError as error:
        yield sent("error", {"text": str(error)})
        return
    except Exception:  # a model server that is not there, say: the stream has begun, so it says so
        LOG.exception("a turn failed")
        yield sent("error", {"text": "the answer failed: the server's log says why"})
        return
    answer = shown(last["messages"][-1], last["passages"])
    yield sent("answer", {**answer, "question": last["question"], "status": last["status"]})


def sent(event: str, data: dict[str, Any]) -> str:
    """Write one server-sent event."""
    return f"event: {event}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


def shown(message: BaseMessage, passages: Sequence[Document] = ()) -> dict[str, Any]:
    """Return what the page shows of a message: its parts with their marks, and its sources.

    The quotes come from the message's annotations. A passage that isn't at hand any more, in a
    conversation taken up again, is shown as far as it is quoted.
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
    sources = [source(known.get(name), own) for name, own in quoted.items()]
    sources += [source(doc, []) for name, doc in known.items() if name not in quoted]
    return {"text": text, "parts": [one for one in parts if one["text"]], "sources": sources}


def source(doc: Document | None, quotes: list[Any]) -> dict[str, Any]:
    """Return a passage as a card: its title and place, its text with the quotes numbered."""
    if doc is None:
        pieces = [{"text": one["cited_text"], "mark": one["extras"]["number"]} for one in quotes]
        return {"title": quotes[0]["title"], "place": "", "pieces": pieces}
    text, done, pieces = doc.page_content, 0, []
    marked = {one["extras"]["start"]: one["extras"] for one in quotes}
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
        "pieces": [one for one in pieces if one["text"]],
    }


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>ragweave chat</title>
<meta name="viewport" content="width=device-width,initial-scale=1,interactive-widget=resizes-content">
<style>
:root{color-scheme:light dark;--ink:light-dark(#1d2433,#dde3f0);--dim:light-dark(#5f6880,#97a1b8);
--paper:light-dark(#fff,#13161d);--panel:light-dark(#f5f6fa,#1d222e);
--rule:light-dark(#d7dce7,#333b4c);--link:light-dark(#2c53c0,#92b2ff);
--mine:light-dark(#e6ecfc,#24304e);--mark:light-dark(#ffe9a8,#5d4a12)}
*{box-sizing:border-box}html,body{height:100%}
body{font:16px/1.55 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:0;
display:flex;flex-direction:column;overflow-wrap:anywhere}
header,#log,form{width:100%;max-width:780px;margin:0 auto;padding:0 18px}
header{padding-top:14px;color:var(--dim);font-size:14px;display:flex;justify-content:space-between}
header b{color:var(--ink)}header button{all:unset;cursor:pointer;color:var(--link)}
main{flex:1;overflow-y:auto}#log{padding-bottom:18px}
.me{background:var(--mine);border-radius:14px 14px 4px 14px;padding:8px 14px;margin:22px 0 10px auto;
width:fit-content;max-width:85%;white-space:pre-wrap}
.said{white-space:pre-wrap;margin:6px 0}.dim{color:var(--dim);font-size:13.5px;margin:4px 0}
.unsupported{border-bottom:2px dotted #c0504d}sup{line-height:0}
sup a{color:var(--link);text-decoration:none;cursor:pointer;padding:0 1px}
.cards{display:grid;gap:10px;margin:12px 0 4px}
.card{border:1px solid var(--rule);border-radius:10px;padding:10px 14px;background:var(--panel)}
.card.lit{outline:2px solid var(--link)}.card h2{font-size:14px;margin:0 0 4px}
.card h2 span{font-weight:400;color:var(--dim)}
.card p{font-size:14px;margin:0;white-space:pre-wrap;max-height:10.8em;overflow-y:auto}
mark{background:var(--mark);color:inherit;border-radius:3px;padding:1px 2px}
mark b{font-size:11px;vertical-align:super}
details{margin:8px 0}summary{cursor:pointer;color:var(--dim);font-size:13.5px}
.working::after{content:"";animation:dots 1.2s steps(4) infinite}
@keyframes dots{25%{content:"."}50%{content:".."}75%{content:"..."}}
.tries{display:flex;flex-wrap:wrap;gap:8px;margin:14px 0}
.tries button{font:inherit;font-size:14px;color:inherit;background:var(--panel);cursor:pointer;
border:1px solid var(--rule);border-radius:18px;padding:6px 14px}
form{display:flex;gap:8px;padding-top:10px;padding-bottom:14px;border-top:1px solid var(--rule)}
input{flex:1;min-width:0;font:inherit;color:inherit;background:var(--panel);
border:1px solid var(--rule);border-radius:10px;padding:10px 14px}
form button{font:inherit;border:0;border-radius:10px;padding:0 20px;background:#2c53c0;color:#fff;
cursor:pointer}form button:disabled{opacity:.5}
</style></head><body>
<header><b>ragweave chat</b><button type="button" id="new">New conversation</button></header>
<main><div id="log"></div></main>
<form><input name="q" autofocus autocomplete="off" maxlength="2000" placeholder="Ask your documents"
aria-label="Question"><button>Ask</button></form>
<script>
const log = document.getElementById("log"), form = document.forms[0];
const TRY = [];
let thread = sessionStorage.thread ||= crypto.randomUUID?.() ?? String(Math.random()).slice(2);

function add(parent, tag, kind, text) {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}
function down() { log.parentElement.scrollTop = log.scrollHeight; }

function pieces(parent, listed) {
  for (const one of listed) {
    if (!one.mark) { parent.append(one.text); continue; }
    const marked = add(parent, "mark");
    add(marked, "b", "", one.mark);
    marked.append(" " + one.text);
  }
}
function card(parent, source) {
  const made = add(parent, "section", "card");
  const title = add(made, "h2", "", source.title);
  if (source.place && source.place !== source.title) add(title, "span", "", " · " + source.place);
  const text = add(made, "p");
  pieces(text, source.pieces);
  const first = text.querySelector("mark");
  if (first) requestAnimationFrame(() => text.scrollTop = first.offsetTop - text.offsetTop - 24);
  return made;
}
function answer(turn, said, data) {
  said.textContent = "";
  const cards = {};
  for (const part of data.parts) {
    if (!part.marks) { said.append(part.text); continue; }
    const span = add(said, "span", part.marks.length ? "" : "unsupported", part.text);
    if (!part.marks.length) span.title = "no passage supports this";
    for (const mark of part.marks) {
      const link = add(add(said, "sup"), "a", "", "[" + mark + "]");
      link.onclick = () => {
        cards[mark].scrollIntoView({behavior: "smooth", block: "nearest"});
        cards[mark].classList.add("lit");
        setTimeout(() => cards[mark].classList.remove("lit"), 1500);
      };
    }
  }
  const cited = data.sources.filter(one => one.pieces.some(piece => piece.mark));
  const rest = data.sources.filter(one => !cited.includes(one));
  if (cited.length) {
    const grid = add(turn, "div", "cards");
    for (const one of cited) {
      const made = card(grid, one);
      for (const piece of one.pieces) if (piece.mark) cards[piece.mark] = made;
    }
  }
  if (rest.length) {
    const more = add(turn, "details"), word = cited.length ? " more" : "";
    add(more, "summary", "", rest.length + word + (rest.length > 1 ? " passages read" : " passage read"));
    const grid = add(more, "div", "cards");
    for (const one of rest) card(grid, one);
  }
}
async function* eventsOf(reply) {
  let rest = "";
  for await (const part of reply.body.pipeThrough(new TextDecoderStream())) {
    rest += part;
    let end;
    while ((end = rest.indexOf("\\n\\n")) >= 0) {
      const [head, body] = rest.slice(0, end).split("\\ndata: ");
      rest = rest.slice(end + 2);
      yield [head.replace("event: ", ""), JSON.parse(body)];
    }
  }
}
async function ask(question) {
  log.querySelector(".tries")?.remove();
  add(log, "div", "me", question);
  const turn = add(log, "div"), work = add(turn, "div", "dim working", "Starting");
  const said = add(turn, "div", "said");
  let ended = false;
  form.elements[1].disabled = true;
  down();
  try {
    const reply = await fetch("/chat", {method: "POST",
      headers: {"content-type": "application/json"}, body: JSON.stringify({question, thread})});
    if (!reply.ok) throw new Error("the server refused the question (" + reply.status + ")");
    for await (const [kind, data] of eventsOf(reply)) {
      if (kind === "step") work.textContent = "Working: " + data.node;
      else if (kind === "token") { work.hidden = true; said.textContent += data.text; }
      else if (kind === "error") throw new Error(data.text);
      else {
        ended = true;
        answer(turn, said, data);
        if (data.question !== question) {
          work.hidden = false;
          work.className = "dim";
          work.textContent = "Asked: " + data.question;
        }
      }
      down();
    }
    if (!ended) throw new Error("the answer was cut off");
  } catch (error) {
    work.hidden = true;
    add(turn, "p", "dim", "Sorry: " + error.message);
  }
  if (work.className !== "dim") work.remove();
  form.elements[1].disabled = false;
  form.q.focus();
  down();
}
function start() {
  log.textContent = "";
  const tries = add(log, "div", "tries");
  for (const one of TRY) add(tries, "button", "", one).onclick = () => ask(one);
}
form.onsubmit = event => {
  event.preventDefault();
  const question = form.q.value.trim();
  if (!question || form.elements[1].disabled) return;
  form.q.value = "";
  ask(question);
};
document.getElementById("new").onclick = () => {
  sessionStorage.thread = thread = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
  start();
};
fetch("/threads/" + thread).then(reply => reply.json()).then(said => {
  if (log.querySelector(".me")) return;
  start();
  if (said.length) log.textContent = "";
  for (const one of said) {
    if (one.role === "human") { add(log, "div", "me", one.text); continue; }
    const turn = add(log, "div");
    answer(turn, add(turn, "div", "said"), one);
  }
  down();
});
</script></body></html>"""


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
