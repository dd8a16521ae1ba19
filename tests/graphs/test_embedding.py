"""What a compiled method offers its users' apps by itself."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core._api import LangChainBetaWarning
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from pydantic import BaseModel
from tests.scripted import ListRetriever, ScriptedChat, documents
from typing_extensions import TypedDict

from ragweave import build_graph
from ragweave.graphs import CompiledGraph


@pytest.fixture
def graph() -> CompiledGraph:
    retriever = ListRetriever(documents=documents("Varn has a bridge."))
    return build_graph("concat", model=ScriptedChat(replies=["Varn"]), retriever=retriever)


def test_as_tool(graph: CompiledGraph) -> None:
    tool = graph.as_tool(name="towns", description="Knows towns.")
    assert (tool.name, tool.description, set(tool.args)) == ("towns", "Knows towns.", {"question"})
    assert str(tool.invoke({"question": "Where?"})).startswith("Varn")
    assert graph.as_tool().name == "concat"


def test_as_tool_with_arguments_of_the_callers_own(graph: CompiledGraph) -> None:
    class Asked(BaseModel):
        question: str
        answer_type: str

    with pytest.warns(LangChainBetaWarning):
        tool = graph.as_tool(Asked, name="towns", description="Knows towns.")
    assert set(tool.args) == {"question", "answer_type"}
    assert tool.invoke({"question": "Where?", "answer_type": "long"})["answer"] == "Varn"


def test_as_retriever(graph: CompiledGraph) -> None:
    found = graph.as_retriever().invoke("Where is the bridge?")
    assert [doc.page_content for doc in found] == ["Varn has a bridge."]


class Desk(TypedDict):
    """A graph's state that keeps passages from question to question."""

    question: str
    passages: list[Any]


@pytest.mark.parametrize(
    ("passages", "noted"), [([], []), (["Varn has two."], []), (None, ["passages_given_by_graph"])]
)
def test_passages_that_an_outer_state_kept_are_noted(
    graph: CompiledGraph, passages: list[str] | None, noted: list[str]
) -> None:
    desk = StateGraph(Desk)
    desk.add_node("rag", graph)
    desk.add_edge(START, "rag")
    app, config = desk.compile(checkpointer=InMemorySaver()), {"configurable": {"thread_id": "1"}}
    out = app.invoke({"question": "Where is the bridge?", "passages": []}, config)
    again = {"question": "How many?"} | ({} if passages is None else {"passages": passages})
    tasks = app.stream(again, config, stream_mode="tasks", subgraphs=True)
    updates = {task["name"]: task["result"] for _, task in tasks if "result" in task}
    begun = updates["begin"]
    assert [one["event"] for one in begun["notes"].value] == noted
    assert ("retrieve" in updates) is (passages == [])
    assert all("of_run" not in doc.metadata for doc in begun["passages"].value)
    # given to the method itself they are its caller's choice
    *_, own = graph.stream({**again, "passages": out["passages"]}, stream_mode="values")
    assert own["notes"] == []


def test_a_notebook_shows_the_graph_without_a_server(graph: CompiledGraph) -> None:
    shown = graph._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert ">concat</text>" in shown["image/svg+xml"]
