"""Watching a run of a graph: its steps with their model calls, searches, times and notes.

LangGraph's `tasks` stream says which node ran when and what it returned, LangChain's callbacks say what each node
asked and searched, and the `messages` stream gives tokens as they are written.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.outputs import LLMResult
from langgraph.types import Overwrite, StreamMode

from ragweave.cli.screen import counted
from ragweave.state import Note
from ragweave.tools.drawing import END, START, Edge, Taken
from ragweave.tools.text.untrusted import plain, without_secrets

if TYPE_CHECKING:
    from rich.status import Status

    from ragweave.graphs import MethodGraph


@dataclass
class Asked:
    """A model call."""

    role: str
    """The role that the model played, such as `answer`."""
    model: str
    prompt: list[dict[str, str]]
    """Messages with `role` and `text`."""
    reply: str = ""
    error: str = ""


@dataclass
class Searched:
    """A search."""

    query: str
    found: int = 0
    """Number of passages."""
    error: str = ""


@dataclass
class Step:
    """One run of one node."""

    node: str = ""
    inside: str = ""
    """The node whose graph it belongs to; empty for the graph itself."""
    superstep: int = 0
    """From 0: nodes of one superstep run side by side."""
    seconds: float = 0.0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    found: str = ""
    """Its result in a few words."""
    asked: list[Asked] = field(default_factory=list)
    searched: list[Searched] = field(default_factory=list)
    passages: dict[str, list[Document]] = field(default_factory=dict)
    """The passages that it wrote, by query or state key."""
    notes: list[Note] = field(default_factory=list)
    error: str = "did not finish"

    @property
    def name(self) -> str:
        """The node, with the node that it is inside of."""
        return f"{self.inside} › {self.node}" if self.inside else self.node

    def end(self, written: Mapping[str, Any], error: str) -> None:
        """Take what the node wrote."""
        usage = written.get("usage") or {}
        self.calls = usage.get("calls", 0)
        self.input_tokens, self.output_tokens = usage.get("input_tokens", 0), usage.get("output_tokens", 0)
        self.notes, self.error = written.get("notes") or [], error
        self.passages = {
            f"{name} for {query}": docs
            for name in ("retrieved", "kept")
            for query, docs in (written.get(name) or {}).items()
        }
        if written.get("passages"):
            self.passages["passages"] = written["passages"]
        answers = [one["answer"] for one in (written.get("candidates") or {}).values()]
        counts = [
            f"{counted(len(docs), 'passage')} for {query}" for query, docs in (written.get("retrieved") or {}).items()
        ]
        self.found = str(written.get("answer") or "") or "; ".join(answers) or ", ".join(counts)


class Watch(BaseCallbackHandler):
    """Follows one run."""

    run_inline = True

    def __init__(self, *, live: bool = False) -> None:
        """Watch a run; `live`: replies are shown as they are written, of several at once the first."""
        self.output: dict[str, Any] = {}
        """The graph's output so far."""
        self.live = live
        self.streamed = ""
        """The last reply that was shown."""
        self._steps: dict[str, Step] = {}
        self._running: dict[str, tuple[Sequence[str], float]] = {}
        """The graph that each running task belongs to, and when it began."""
        self._superstep: dict[Sequence[str], int] = {}
        """The last superstep of each graph."""
        self._calls: dict[UUID, Asked | Searched] = {}
        self._shown: tuple[str, str | None] | None = None
        """The task and the message that are being shown."""

    @property
    def steps(self) -> list[Step]:
        """The steps, in the order in which they began."""
        return [one for one in self._steps.values() if one.node]

    @property
    def notes(self) -> list[Note]:
        """The notes that the nodes left."""
        return [note for step in self.steps for note in step.notes]

    async def follow(
        self, graph: MethodGraph, given: Mapping[str, Any], status: Status | None = None
    ) -> dict[str, Any]:
        """Run a graph on an input, and return its output; `status` shows which nodes are running."""
        modes: list[StreamMode] = ["values", "tasks", *(["messages"] if self.live else [])]  # type: ignore[list-item]
        stream: Any = graph.astream(given, {"callbacks": [self]}, stream_mode=modes, subgraphs=True)
        async for space, mode, event in stream:
            if mode == "tasks":
                self._task(space, event)
                if status is not None:
                    names = dict.fromkeys(self._steps[task].node for task in self._running)
                    status.update(f"{', '.join(names)} …")
            elif mode == "messages":
                self._token(*event)
            elif not space:
                self.output = {key: event[key] for key in graph.output_channels if key in event}
        return self.output

    def taken(self, edges: Sequence[Edge]) -> Taken:
        """Return the path that was taken: nodes, and the edges between nodes of consecutive supersteps."""
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
        values = {key: one.value if isinstance(one, Overwrite) else one for key, one in written.items()}
        step.end(values, without_secrets(str(event.get("error") or "")))
        if self._shown and self._shown[0] == task:
            self._write("\n")
            self._shown = None

    def _token(self, chunk: Any, metadata: Mapping[str, Any]) -> None:
        task = _task_of(metadata)
        if self._shown is None or (self._shown[0] == task and self._shown[1] != chunk.id):
            self._write(f"{chr(10) if self._shown else ''}[{metadata.get('langgraph_node')}] ")
            self._shown, self.streamed = (task, chunk.id), ""
        if self._shown == (task, chunk.id):
            self.streamed += str(chunk.text)
            self._write(str(chunk.text))

    def _write(self, text: str) -> None:
        sys.stdout.write(plain(text))
        sys.stdout.flush()

    def _step(self, task: str) -> Step:
        return self._steps.setdefault(task, Step())

    def on_chat_model_start(self, serialized: Any, messages: Any, **event: Any) -> None:  # noqa: ARG002
        """Take a prompt."""
        known = event.get("metadata") or {}
        prompt = [{"role": one.type, "text": str(one.text)} for one in messages[0]]
        asked = Asked(str(known.get("ragweave_role", "")), str(known.get("ls_model_name") or ""), prompt)
        self._step(_task_of(known)).asked.append(asked)
        self._calls[event["run_id"]] = asked

    def on_llm_end(self, response: LLMResult, **event: Any) -> None:
        """Take the reply; a form that was filled in by a tool call, as JSON."""
        asked = self._calls.get(event["run_id"])
        if isinstance(asked, Asked):
            reply = response.generations[0][0]
            tools = getattr(getattr(reply, "message", None), "tool_calls", None)
            asked.reply = reply.text or (json.dumps(tools[0]["args"], ensure_ascii=False) if tools else "")

    def on_retriever_start(self, serialized: Any, query: str, **event: Any) -> None:  # noqa: ARG002
        """Take a query."""
        searched = self._calls[event["run_id"]] = Searched(query)
        self._step(_task_of(event.get("metadata") or {})).searched.append(searched)

    def on_retriever_end(self, documents: Any, **event: Any) -> None:
        """Take what a query found."""
        searched = self._calls.get(event["run_id"])
        if isinstance(searched, Searched):
            searched.found = len(documents)

    def on_llm_error(self, error: BaseException, **event: Any) -> None:
        """Take the error of a call or a search."""
        if call := self._calls.get(event["run_id"]):
            call.error = without_secrets(" ".join(f"{type(error).__name__}: {error}".split()))

    on_retriever_error = on_llm_error


def _task_of(metadata: Mapping[str, Any]) -> str:
    """Return the id of the innermost task that a call belongs to: the namespace is `node:id|node:id`."""
    return str(metadata.get("langgraph_checkpoint_ns") or "").rpartition(":")[2]
