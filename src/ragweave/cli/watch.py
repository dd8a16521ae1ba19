"""Watching a run of a graph: its steps with their model calls, retrievals, times and notes.

LangGraph's `tasks` stream says which node ran when and what it returned; LangChain's callbacks say
what each node asked and searched; the `messages` stream gives tokens as they are written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage
from langchain_core.outputs import LLMResult
from langchain_core.runnables import RunnableConfig
from langgraph.types import Overwrite, StreamMode
from typing_extensions import TypedDict

from ragweave.state import Note
from ragweave.tools.text.plain import plain
from ragweave.tools.text.secrets import without_secrets

if TYPE_CHECKING:
    from ragweave.graphs.frame import DrawnGraph


class Said(TypedDict):
    """A message of a prompt."""

    role: str
    text: str


class Asked(TypedDict):
    """A model call."""

    role: str
    """The role that the model played: answer, proxy, judge, rewrite, filter."""
    model: str
    prompt: list[Said]
    reply: str
    error: str


class Searched(TypedDict):
    """A retrieval."""

    query: str
    found: int
    error: str


class Calls(BaseCallbackHandler):
    """Collects model calls and retrievals, by LangGraph's task id."""

    run_inline = True

    def __init__(self) -> None:
        """Start with none."""
        self.asked: dict[str, list[Asked]] = {}
        self.searched: dict[str, list[Searched]] = {}
        self._open: dict[UUID, Any] = {}

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain's signature, as below
        messages: list[list[BaseMessage]],
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Take a prompt."""
        known = metadata or {}
        asked: Asked = {
            "role": str(known.get("ragweave_role", "")),
            "model": str(known.get("ls_model_name") or ""),
            "prompt": [{"role": one.type, "text": str(one.text)} for one in messages[0]],
            "reply": "",
            "error": "",
        }
        self.asked.setdefault(_task(known), []).append(asked)
        self._open[run_id] = asked

    def on_llm_end(self, response: LLMResult, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take the reply."""
        if run_id in self._open:
            self._open.pop(run_id)["reply"] = response.generations[0][0].text

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take a call's error."""
        if run_id in self._open:
            self._open.pop(run_id)["error"] = _line(error)

    def on_retriever_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002
        query: str,
        *,
        run_id: UUID,
        metadata: dict[str, Any] | None = None,
        **kwargs: Any,  # noqa: ARG002
    ) -> None:
        """Take a query."""
        searched: Searched = {"query": query, "found": 0, "error": ""}
        self.searched.setdefault(_task(metadata or {}), []).append(searched)
        self._open[run_id] = searched

    def on_retriever_end(self, documents: Any, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take what a query found."""
        if run_id in self._open:
            self._open.pop(run_id)["found"] = len(documents)

    def on_retriever_error(self, error: BaseException, *, run_id: UUID, **kwargs: Any) -> None:  # noqa: ARG002
        """Take a query's error."""
        if run_id in self._open:
            self._open.pop(run_id)["error"] = _line(error)


def _task(metadata: dict[str, Any]) -> str:
    """Return the id of the task that a call belongs to: the namespace is `node:id|…`."""
    return _id(str(metadata.get("langgraph_checkpoint_ns") or "").partition("|")[0])


def _id(space: str) -> str:
    """Return the id of a task that is written `node:id`."""
    return space.rpartition(":")[2]


def _is_note(value: object) -> bool:
    """Tell a note from what the state of another graph may hold by that name."""
    return isinstance(value, Mapping) and {"event", "detail"} <= value.keys()


def _written(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the end of a task says that it wrote."""
    writes = dict(event.get("result") or ())
    return {
        key: value.value if isinstance(value, Overwrite) else value for key, value in writes.items()
    }


def _line(error: BaseException) -> str:
    return without_secrets(" ".join(f"{type(error).__name__}: {error}".split()))


@dataclass
class Visit:
    """One run of one node."""

    node: str
    started: float
    step: int = 0
    """Which superstep of the graph it belongs to, from 0."""
    seconds: float = 0.0
    update: Mapping[str, Any] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    """Its model calls."""
    searched: list[Searched] = field(default_factory=list)
    """Its retrievals."""
    notes: list[Note] = field(default_factory=list)
    """What it noted; where it ran a graph of its own, what the nodes of that graph noted."""
    error: str = ""
    """Why it ended without a result."""

    @property
    def calls(self) -> int:
        """Model calls of this visit."""
        return int(self._usage("calls"))

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of this visit."""
        return self._usage("input_tokens"), self._usage("output_tokens")

    def _usage(self, key: str) -> int:
        usage = self.update.get("usage")
        return int(usage.get(key, 0)) if isinstance(usage, Mapping) else 0


class Watch:
    """Collects the events of LangGraph's `tasks` and `messages` streams.

    One reply is shown live at a time: while several are being written, the first is shown as it
    comes and the others when they end.
    """

    def __init__(self, *, live: bool) -> None:
        """Watch a run; `live` shows tokens as they come."""
        self.live = live
        self.visits: list[Visit] = []
        self.output: dict[str, Any] = {}
        """The graph's output so far."""
        self.calls = Calls()
        self._step = -1
        self._open: dict[str, Visit] = {}
        self._inner: dict[str, list[Note]] = {}
        """Notes by the id of the task in which they were made, by the nodes of its own graph."""
        self._texts: dict[str, str] = {}
        self._ended: list[str] = []
        self._shown: str | None = None
        self._reply: str | None = None
        """Id of the reply being shown: a node's retry or second call is another reply."""

    @property
    def notes(self) -> list[Note]:
        """The notes that nodes left, in order of the visits."""
        return [note for visit in self.visits for note in visit.notes]

    @property
    def all_visits(self) -> list[Visit]:
        """The visits in order of their ends, then those that never ended."""
        for key, visit in self._open.items():
            visit.error = "did not finish"
            visit.notes = self._inner.get(key, [])
            self._called(key, visit)
        return [*self.visits, *self._open.values()]

    def task(self, event: Mapping[str, Any]) -> None:
        """Take a task's start or end."""
        if "result" in event or "error" in event:
            self._end(event)
            return
        if not self._open:
            self._step += 1
        self._open[event["id"]] = Visit(event["name"], time.perf_counter(), self._step)

    def inner_task(self, space: Sequence[str], event: Mapping[str, Any]) -> None:
        """Take the start or end of a task in a graph that a node runs, for its notes.

        Args:
            space: The tasks that it runs in, as LangGraph names them, the outermost first.
            event: The task's start or end.
        """
        if "result" in event or "error" in event:
            outer = self._inner.setdefault(_id(space[-1]), [])
            outer += self._notes(event["id"], _written(event))

    def token(self, chunk: Any, metadata: Mapping[str, Any]) -> None:
        """Take a token of a reply."""
        key = str(metadata.get("langgraph_checkpoint_ns") or metadata.get("langgraph_node"))
        text = chunk.text if isinstance(chunk.text, str) else ""
        head = f"[{metadata.get('langgraph_node')}] "
        if self._shown is None:
            self._shown, self._reply = key, chunk.id
            self._write(f"{head}{self._texts.pop(key, '')}")
        if key == self._shown:
            if chunk.id != self._reply:
                self._reply = chunk.id
                self._write(f"\n{head}")
            self._write(text)
        else:
            self._texts[key] = self._texts.get(key, "") + text

    def close(self) -> None:
        """End the live text."""
        if self._shown is not None:
            self._write("\n")
            self._shown = None

    def _end(self, event: Mapping[str, Any]) -> None:
        visit = self._open.pop(event["id"], None)
        if visit is None:
            return
        visit.seconds = time.perf_counter() - visit.started
        visit.error = without_secrets(str(event.get("error") or ""))
        self._called(event["id"], visit)
        visit.update = _written(event)
        visit.notes = self._notes(event["id"], visit.update)
        self.visits.append(visit)
        self._flush(f"{event['name']}:{event['id']}")

    def _notes(self, task: str, update: Mapping[str, Any]) -> list[Note]:
        """Return what was noted in a task; what its own graph hands up again counts once."""
        inner, own = self._inner.pop(task, []), update.get("notes")
        if not isinstance(own, list):
            return inner
        return [*inner, *(note for note in own if _is_note(note) and note not in inner)]

    def _called(self, task: str, visit: Visit) -> None:
        visit.asked = self.calls.asked.get(task, [])
        visit.searched = self.calls.searched.get(task, [])

    def _flush(self, key: str) -> None:
        """Show the replies that have ended, unless an unfinished one is being shown."""
        if key == self._shown:
            self.close()
        elif key in self._texts:
            self._ended.append(key)
        if self._shown is None:
            for ended in self._ended:
                self._write(f"[{ended.partition(':')[0]}] {self._texts.pop(ended)}\n")
            self._ended.clear()

    def _write(self, text: str) -> None:
        sys.stdout.write(plain(text))
        sys.stdout.flush()


async def follow(graph: DrawnGraph[Any], given: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
    """Run `graph` on `given` with `watch` looking on, and return its output.

    Async, so that Ctrl-C ends it at once.
    """
    modes: list[StreamMode] = ["values", "tasks"]
    if watch.live:
        modes.append("messages")
    config: RunnableConfig = {"callbacks": [watch.calls]}
    stream = graph.astream(given, config, stream_mode=modes, subgraphs=True)
    async for space, mode, event in cast("AsyncIterator[tuple[tuple[str, ...], str, Any]]", stream):
        if space:
            if mode == "tasks":
                watch.inner_task(space, event)
        elif mode == "values":
            watch.output = dict(event)
        elif mode == "tasks":
            watch.task(event)
        else:
            watch.token(*event)
    watch.close()
    return watch.output
