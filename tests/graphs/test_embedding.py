"""What a compiled method offers its users' apps by itself."""

from __future__ import annotations

import pytest
from langchain_core._api import LangChainBetaWarning
from pydantic import BaseModel
from tests.scripted import ListRetriever, ScriptedChat, documents

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


def test_a_notebook_shows_the_graph_without_a_server(graph: CompiledGraph) -> None:
    shown = graph._repr_mimebundle_()
    assert shown["image/svg+xml"].startswith("<svg")
    assert ">concat</text>" in shown["image/svg+xml"]
