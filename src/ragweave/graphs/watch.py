"""Watching a run of a graph: its steps with their model calls, searches, times and notes.

    watch = Watch()
    output = await watch.follow(graph, {"question": "…"})
    watch.steps                                         # what each node asked, searched and wrote

LangGraph's `tasks` stream says which node ran when and what it returned, LangChain's callbacks say what each node
asked and searched, and the `messages` stream gives tokens as they are written.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.outputs import LLMResult
from langgraph.types import Overwrite, StreamMode

from ragweave.graphs.base import MethodGraph
from ragweave.state import Note
from ragweave.tools.drawing import END, START, Edge, Taken
from ragweave.tools.models.messages import ShownReply
from ragweave.tools.text.untrusted import without_secrets


@dataclass
class WatchedCall:
    """A model call."""

    role: str
    """The role that the model played, such as `generator`."""
    model: str
    prompt: list[dict[str, str]]
    """Messages with `role` and `text`."""
    reply: str = ""
    error: str = ""


@dataclass
class WatchedSearch:
    """A search."""

    query: str
    passages: int = 0
    """Number of passages."""
    error: str = ""


@dataclass
class WatchedStep:
    """One run of one node."""

    node: str = ""
    inside: str = ""
    """The node whose graph it belongs to; "" for the graph itself."""
    superstep: int = 0
    """From 0; nodes of one superstep run in parallel."""
    seconds: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    result: str = ""
    """Its result in a few words."""
    asked: list[WatchedCall] = field(default_factory=list)
    searched: list[WatchedSearch] = field(default_factory=list)
    passages: dict[str, list[Document]] = field(default_factory=dict)
    """The passages that it wrote, by query or state key."""
    notes: list[Note] = field(default_factory=list)
    """Its own notes, without those of a graph that runs inside it."""
    error: str = "did not finish"

    @property
    def name(self) -> str:
        """The node, after the node that it is inside of."""
        return f"{self.inside} › {self.node}" if self.inside else self.node

    def end(self, written: Mapping[str, Any], error: str) -> None:
        """Take what the node wrote."""
        usage = written.get("usage") or {}
        self.calls = usage.get("calls", 0)
        self.input_tokens, self.output_tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
        self.notes, self.error = written.get("notes") or [], error
        self.passages = {
            f"{name} for {query}": docs
            for name in ("retrieved", "filtered")
            for query, docs in (written.get(name) or {}).items()
        }
        if written.get("passages"):
            self.passages["passages"] = written["passages"]
        answers = [candidate["answer"] for candidate in (written.get("candidates") or {}).values()]
        counts = [
            f"{counted(len(docs), 'passage')} for {query}" for query, docs in (written.get("retrieved") or {}).items()
        ]
        self.result = str(written.get("answer") or "") or "; ".join(answers) or ", ".join(counts)


class Watch(BaseCallbackHandler):
    """Follows one run."""

    run_inline = True

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        """Watch a run; `write` gets each piece of a reply as it is written, and of replies in parallel the first."""
        self.output: dict[str, Any] = {}
        """The graph's output so far."""
        self._shown_reply = ShownReply()
        self._write = write
        self._steps: dict[str, WatchedStep] = {}
        self._running: dict[str, tuple[Sequence[str], float]] = {}
        """The graph that each running task belongs to, and when it began."""
        self._superstep: dict[Sequence[str], int] = {}
        """The last superstep of each graph."""
        self._calls: dict[UUID, WatchedCall | WatchedSearch] = {}
        self._shown: tuple[str, str | None] | None = None
        """The task and the message that are being written."""

    @property
    def streamed(self) -> str:
        """The last reply that was written, without its thoughts."""
        return self._shown_reply.text

    @property
    def steps(self) -> list[WatchedStep]:
        """The steps, in the order in which they began."""
        return [step for step in self._steps.values() if step.node]

    @property
    def notes(self) -> list[Note]:
        """The notes that the nodes left."""
        return [note for step in self.steps for note in step.notes]

    async def follow(
        self, graph: MethodGraph, values: Mapping[str, Any], progress: Callable[[str], None] | None = None
    ) -> dict[str, Any]:
        """Run a graph on an input, and return its output; `progress` is called with the nodes that are running."""
        modes: list[StreamMode] = ["values", "tasks"]
        if self._write:
            modes.append("messages")
        stream: Any = graph.astream(values, {"callbacks": [self]}, stream_mode=modes, subgraphs=True)
        async for space, mode, event in stream:
            if mode == "tasks":
                self._task(space, event)
                if progress:
                    progress(f"{', '.join(self._under_way())} …")
            elif mode == "messages" and self._write:
                self._token(self._write, *event)
            elif not space:
                self.output = {key: event[key] for key in graph.output_channels if key in event}
        return self.output

    def _under_way(self) -> list[str]:
        """Return the nodes that are running; of one that runs for each of many, how many have ended: `read 3 of 60`."""
        running = Counter((self._steps[task].node, self._steps[task].superstep) for task in self._running)
        begun = Counter((step.node, step.superstep) for step in self._steps.values())
        return [
            f"{at[0]} {begun[at] - count} of {begun[at]}" if begun[at] > 1 else at[0] for at, count in running.items()
        ]

    def taken(self, edges: Sequence[Edge]) -> Taken:
        """Return the path taken: the nodes, and the edges between nodes of consecutive supersteps."""
        outer = [step for step in self.steps if not step.inside]
        ran: dict[int, set[str]] = {-1: {START}}
        times = {START: 1}
        for step in outer:
            ran.setdefault(step.superstep, set()).add(step.node)
            times[step.node] = times.get(step.node, 0) + 1
        if self.output.get("answer") and not any(step.error for step in outer):
            ran[max(ran) + 1] = {END}
            times[END] = 1
        pairs = {
            (edge.source, edge.target)
            for edge in edges
            for at, nodes in ran.items()
            if edge.source in nodes and edge.target in ran.get(at + 1, ())
        }
        return Taken(times, frozenset(pairs))

    def _task(self, space: Sequence[str], event: Mapping[str, Any]) -> None:
        task = event["id"]
        step = self._step(task)
        if "result" not in event and "error" not in event:
            if all(other != space for other, _ in self._running.values()):
                self._superstep[space] = self._superstep.get(space, -1) + 1
            step.node, step.superstep = event["name"], self._superstep[space]
            step.inside = space[-1].partition(":")[0] if space else ""
            self._running[task] = space, time.perf_counter()
            return
        step.seconds = round(time.perf_counter() - self._running.pop(task)[1], 4)
        written = dict(event.get("result") or ())
        values = {key: value.value if isinstance(value, Overwrite) else value for key, value in written.items()}
        inner = [note for other in self.steps if other.inside == step.node for note in other.notes]
        values["notes"] = [note for note in values.get("notes") or () if note not in inner]
        step.end(values, without_secrets(str(event.get("error") or "")))
        if self._write and self._shown and self._shown[0] == task:
            self._write(self._shown_reply.add("", ends=True) + "\n")
            self._shown = None

    def _token(self, write: Callable[[str], None], chunk: Any, metadata: Mapping[str, Any]) -> None:
        task = _task_of(metadata)
        if self._shown is None or (self._shown[0] == task and self._shown[1] != chunk.id):
            write(f"{chr(10) if self._shown else ''}[{metadata.get('langgraph_node')}] ")
            prompt = "\n".join(message["text"] for asked in self._step(task).asked[-1:] for message in asked.prompt)
            self._shown, self._shown_reply = (task, chunk.id), ShownReply(prompt)
        if self._shown == (task, chunk.id) and (new := self._shown_reply.add(str(chunk.text))):
            write(new)

    def _step(self, task: str) -> WatchedStep:
        return self._steps.setdefault(task, WatchedStep())

    def on_chat_model_start(self, serialized: Any, messages: Any, **event: Any) -> None:  # noqa: ARG002
        """Take a prompt."""
        metadata = event.get("metadata") or {}
        prompt = [{"role": message.type, "text": str(message.text)} for message in messages[0]]
        asked = WatchedCall(str(metadata.get("ragweave_role", "")), str(metadata.get("ls_model_name") or ""), prompt)
        self._step(_task_of(metadata)).asked.append(asked)
        self._calls[event["run_id"]] = asked

    def on_llm_end(self, response: LLMResult, **event: Any) -> None:
        """Take the reply; a form that was filled in by a tool call, as JSON."""
        asked = self._calls.get(event["run_id"])
        if isinstance(asked, WatchedCall):
            reply = response.generations[0][0]
            tools = getattr(getattr(reply, "message", None), "tool_calls", None)
            asked.reply = reply.text or (json.dumps(tools[0]["args"], ensure_ascii=False) if tools else "")

    def on_retriever_start(self, serialized: Any, query: str, **event: Any) -> None:  # noqa: ARG002
        """Take a query."""
        searched = self._calls[event["run_id"]] = WatchedSearch(query)
        self._step(_task_of(event.get("metadata") or {})).searched.append(searched)

    def on_retriever_end(self, documents: Any, **event: Any) -> None:
        """Take what a query found."""
        searched = self._calls.get(event["run_id"])
        if isinstance(searched, WatchedSearch):
            searched.passages = len(documents)

    def on_llm_error(self, error: BaseException, **event: Any) -> None:
        """Take the error of a call or a search."""
        if call := self._calls.get(event["run_id"]):
            call.error = without_secrets(" ".join(f"{type(error).__name__}: {error}".split()))

    on_retriever_error = on_llm_error


def counted(number: int, thing: str) -> str:
    """Return `1 call`, `2 calls`."""
    return f"{number} {thing}{'' if number == 1 else 'es' if thing.endswith('ch') else 's'}"


def cost_line(usage: Mapping[str, Any], seconds: float) -> str:
    """Return what a run cost: calls, tokens, searches, dollars if the price is known, seconds of work."""
    about = "about " if usage["estimated"] else ""
    priced = usage.get("priced_calls", 0)
    dollars = f"${usage.get('usd', 0):.2g}" + (f" for {priced} of them" if priced < usage["calls"] else "")
    tokens = f"{about}{usage['input_tokens']} tokens in, {usage['output_tokens']} out"
    costs = [counted(usage["calls"], "call"), tokens, counted(usage["retrievals"], "search")]
    return " · ".join([*costs, *([dollars] if "usd" in usage else []), f"{seconds:.1f} s"])


def _task_of(metadata: Mapping[str, Any]) -> str:
    """Return the id of the innermost task that a call belongs to: the namespace is `node:id|node:id`."""
    return str(metadata.get("langgraph_checkpoint_ns") or "").rpartition(":")[2]
