"""A state of one's own in every builder, and what a node may write."""

from __future__ import annotations

import operator
from typing import Annotated, Any

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END
from langgraph.types import Command
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave import METHODS, build_graph
from ragweave.errors import StateError, UsageError
from ragweave.graphs.build import AnyModel
from ragweave.graphs.fragments import add_begin
from ragweave.graphs.frame import CompiledGraph, Parts, draft, finish
from ragweave.nodes.options import Options
from ragweave.nodes.step import Context, Step, Work, pure
from ragweave.state import RAGOutput, RAGState
from ragweave.tools.models import Models

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}


class MyState(RAGState):
    """A state with two fields of one's own."""

    my_notes: list[str]
    my_log: Annotated[list[str], operator.add]


@pytest.mark.parametrize("method", METHODS)
def test_every_builder_takes_it_and_clears_it_for_the_next_question(method: str) -> None:
    built: Any = build_graph(method, model=AnyModel(), state=MyState, checkpointer=InMemorySaver())
    asked = {"question": "Where?", "passages": documents("It is here.")}
    built.invoke(asked, THREAD, interrupt_after=["begin"])
    built.update_state(THREAD, {"my_notes": ["old"], "my_log": ["old"]}, as_node="begin")
    held = built.get_state(THREAD).values
    assert (held["my_notes"], held["my_log"]) == (["old"], ["old"])
    built.invoke({**asked, "question": "Why?"}, THREAD, interrupt_after=["begin"])
    held = built.get_state(THREAD).values
    assert (held["my_notes"], held["my_log"], held["question"]) == ([], [], "Why?")


def test_a_state_that_does_not_extend_ours_is_refused() -> None:
    for state in (dict, RAGOutput, "MyState"):
        with pytest.raises(UsageError, match="must be a class that extends RAGState"):
            build_graph("concat", state=state)


# -- what a node may write ---------------------------------------------------------------------


def graph_of(node: Any, state: type[RAGState] = MyState) -> CompiledGraph:
    """Return a graph of `begin` and `node`."""
    parts = Parts(
        models=Models(answer=ScriptedChat(replies=["a"])),
        retriever=ListRetriever(documents=[]),
        options=Options(),
        state=state,
    )
    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node("mine", node)
    graph.add_edge("begin", "mine")
    graph.add_edge("mine", END)
    return finish(graph, "mine", parts)


def step(update: Any) -> Step[RAGState, Options]:
    """Return a step that returns `update`."""

    def body(_state: RAGState, _context: Context[Options]) -> Work:
        return pure(update)

    return Step("inner_name", body, Options())


WRITERS = {
    "a step": lambda update: step(update),
    "a function": lambda update: lambda _state: update,
    "a command": lambda update: lambda _state: Command(update=update),
    "commands": lambda update: lambda _state: [Command(update={}), Command(update=update)],
}


@pytest.mark.parametrize("how", ["sync", "async"])
@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
async def test_a_key_that_the_state_lacks_raises_and_names_the_node(write: Any, how: str) -> None:
    graph = graph_of(write({"anwser": "Paris"}))
    with pytest.raises(StateError, match=r"node 'mine'.*'anwser'.*did you mean 'answer'\?"):
        if how == "sync":
            graph.invoke({"question": "Where?"})
        else:
            await graph.ainvoke({"question": "Where?"})


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_field_of_ones_own_is_written(write: Any) -> None:
    *_, last = graph_of(write({"my_notes": ["a"]})).stream(
        {"question": "Where?"}, stream_mode="values"
    )
    assert last["my_notes"] == ["a"]
    with pytest.raises(StateError, match="'my_notes'"):
        graph_of(write({"my_notes": ["a"]}), RAGState).invoke({"question": "Where?"})


def test_a_graph_as_a_node_keeps_its_own_output() -> None:
    inner = build_graph("direct", model=ScriptedChat(replies=["Paris"]))
    assert graph_of(inner).invoke({"question": "Where?"})["answer"] == "Paris"


def test_a_misspelt_key_is_no_failure_of_the_proxy() -> None:
    """The proxy's error handler lets a run go on without the proxy, not without its own code."""
    from ragweave.nodes.proxy import proxy_down

    parts = Parts(
        models=Models(answer=ScriptedChat(replies=["a"])), retriever=None, options=Options()
    )
    graph = draft(parts)
    add_begin(graph, parts)
    graph.add_node("mine", step({"heuristic_anwser": ""}), error_handler=proxy_down("begin"))
    graph.add_edge("begin", "mine")
    graph.add_edge("mine", END)
    with pytest.raises(StateError, match="'heuristic_anwser'"):
        finish(graph, "mine", parts).invoke({"question": "Where?"})


def test_a_field_that_only_a_node_declares_is_none_of_the_state() -> None:
    """It would not be cleared for a thread's next question."""

    def mine(state: MyState) -> dict[str, Any]:
        return {"my_notes": [state["question"]]}

    with pytest.raises(StateError, match="'my_notes'"):
        graph_of(mine, RAGState).invoke({"question": "Where?"})
