"""Retrievers by name: how many passages those of others are asked for."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from tests.scripted import ScriptedChat

from ragweave import build_graph
from ragweave.cli import options
from ragweave.tools.knowledge import RETRIEVERS, RetrieverKind, retriever_of


class Moons(BaseRetriever):
    """A LangChain retriever whose number of passages is its own."""

    k: int

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        return [Document(f"Moon {n} of {query}.") for n in range(self.k)]


class Longest:
    """A reranker that counts what it reads."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def predict(self, pairs: Any) -> list[float]:
        self.read.append(len(pairs))
        return [float(len(text)) for _, text in pairs]


@pytest.fixture
def made() -> list[int]:
    return []


@pytest.fixture
def kind(made: list[int]) -> RetrieverKind:
    def make(_kb: Any, k: int) -> BaseRetriever:
        made.append(k)
        return Moons(k=k)

    return RetrieverKind(name="moons", summary="Moons.", make=make, needs_kb=False)


def test_a_call_may_ask_for_more_than_the_retriever_was_made_for(
    kind: RetrieverKind, made: list[int]
) -> None:
    found = retriever_of(kind, None)
    assert [len(found.invoke("Mars", k=k)) for k in (3, 12, 8, 12)] == [3, 12, 8, 12]
    assert made == [5, 12]
    graph = build_graph("concat", model=ScriptedChat(replies=["x"]), retriever=found, k=9)
    assert len(graph.invoke({"question": "Mars?"})["passages"]) == 9


def test_a_reranker_reads_as_many_as_it_asks_for(kind: RetrieverKind, made: list[int]) -> None:
    longest = Longest()
    found = retriever_of(kind, None, 5, longest)
    assert [len(found.invoke("Mars")), len(found.invoke("Mars", k=25))] == [5, 25]
    assert (longest.read, made) == ([20, 25], [20, 25])


def test_a_command_makes_the_retriever_for_its_own_k(kind: RetrieverKind, made: list[int]) -> None:
    RETRIEVERS.register(kind)
    try:
        assert len(options.open_retriever(None, "moons", None, 10).invoke("Mars")) == 10
    finally:
        RETRIEVERS.unregister("moons")
    assert made == [10]
