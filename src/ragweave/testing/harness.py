"""Runs of a method under a contract suite: built, asked and recorded the same way each time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langgraph.checkpoint.base import BaseCheckpointSaver

from ragweave.errors import RagweaveError
from ragweave.graphs import CompiledGraph, build_graph
from ragweave.graphs.method import Method
from ragweave.state import RAGOutput
from ragweave.testing.cases import Setting
from ragweave.testing.scripted import (
    ModelCall,
    Record,
    RecordingRetriever,
    Script,
    ScriptedModel,
)

ROLES = {
    "model": "answer",
    "proxy": "proxy",
    "judge": "judge",
    "rewriter": "rewrite",
    "filter_model": "filter",
}
"""Arguments of `build_graph`, and the roles that they fill: each has a model of its own here."""

OUTPUTS = tuple(RAGOutput.__annotations__)
"""What every graph gives back."""

Invoke: TypeAlias = Callable[[CompiledGraph, Mapping[str, Any], Any], Mapping[str, Any]]
"""How a graph is run: the graph, its input and its run configuration to its final state."""


@dataclass
class Run:
    """A run, and what it really did."""

    setting: Setting
    record: Record
    state: Mapping[str, Any] = field(default_factory=dict)
    """The whole final state."""
    error: RagweaveError | None = None

    @property
    def calls(self) -> list[ModelCall]:
        """The model calls, in the order in which they came."""
        return self.record.calls

    @property
    def output(self) -> dict[str, Any]:
        """The run's output."""
        return {name: self.state[name] for name in OUTPUTS}

    @property
    def prompts(self) -> list[tuple[str, str, str, str]]:
        """Role, node, settings and text of the calls, in an order that no timing changes."""
        return sorted(
            (call.role, call.node, json.dumps(dict(call.settings), sort_keys=True), call.text)
            for call in self.calls
        )

    @property
    def asked(self) -> tuple[object, object]:
        """Prompts and searches, in an order that no timing changes."""
        return tuple(self.prompts), tuple(sorted(self.record.searches))

    @property
    def trace(self) -> tuple[object, ...]:
        """All that the run did that anyone could see."""
        if self.error is not None:
            return type(self.error).__name__, str(self.error)
        return *self.asked, as_json(self.output)


def as_json(value: Any) -> str:
    """Write plain JSON values and documents, nothing else.

    Raises:
        TypeError: There is another value among them.
        ValueError: There is a number that JSON lacks.
    """
    return json.dumps(value, default=_document, sort_keys=True, allow_nan=False)


def _document(value: object) -> Any:
    if isinstance(value, Document):
        return value.model_dump()
    raise TypeError(f"{type(value).__name__} is neither a JSON value nor a Document")


def final_state(
    graph: CompiledGraph, given: Mapping[str, Any], config: Any = None
) -> Mapping[str, Any]:
    """Run a graph to its end and return its whole state."""
    *_, last = graph.stream(dict(given), config, stream_mode="values")
    return dict(last)


def _invoke(graph: CompiledGraph, given: Mapping[str, Any], config: Any) -> Mapping[str, Any]:
    return graph.invoke(dict(given), config)


def _ainvoke(graph: CompiledGraph, given: Mapping[str, Any], config: Any) -> Mapping[str, Any]:
    return asyncio.run(graph.ainvoke(dict(given), config))


def _astream(graph: CompiledGraph, given: Mapping[str, Any], config: Any) -> Mapping[str, Any]:
    async def last() -> Mapping[str, Any]:
        states = graph.astream(dict(given), config, stream_mode="values")
        return dict([state async for state in states][-1])

    return asyncio.run(last())


WAYS: Mapping[str, Invoke] = {"invoke": _invoke, "ainvoke": _ainvoke, "astream": _astream}
"""Ways to run a graph beside `stream`."""


@dataclass(frozen=True, kw_only=True)
class Harness:
    """A method with a script and passages, to be built and run in any setting."""

    method: Method
    script: Script
    question: str
    documents: Sequence[Document]
    retriever: Callable[[RecordingRetriever], Any] = lambda own: own
    """What the graph gets in the place of the recording retriever."""

    def build(
        self,
        setting: Setting,
        record: Record,
        *,
        prompts: Mapping[str, ChatPromptTemplate] | None = None,
        checkpointer: BaseCheckpointSaver[Any] | None = None,
    ) -> CompiledGraph:
        """Build the method; its models and its retriever write to `record`."""
        parts: dict[str, Any] = {
            name: ScriptedModel(
                script=setting.replies or self.script, role=role, **setting.model
            ).recording(record)
            for name, role in ROLES.items()
        }
        found = list(self.documents) if setting.finds else []
        finder = RecordingRetriever(documents=found).recording(record)
        parts |= {"retriever": self.retriever(finder), **setting.parts}
        return build_graph(
            self.method, **parts, prompts=prompts, checkpointer=checkpointer, **setting.options
        )

    def given(self, setting: Setting) -> dict[str, Any]:
        """Return the graph's input."""
        return {"question": self.question, **setting.input}

    def run(
        self,
        setting: Setting,
        *,
        prompts: Mapping[str, ChatPromptTemplate] | None = None,
        config: Any = None,
        invoke: Invoke = final_state,
    ) -> Run:
        """Build and run the method once; an error of ragweave's is part of what it did."""
        done = Run(setting, Record())
        try:
            graph = self.build(setting, done.record, prompts=prompts)
            done.state = invoke(graph, self.given(setting), config)
        except RagweaveError as error:
            done.error = error
        return done
