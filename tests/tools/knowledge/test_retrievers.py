"""Retrievers by name: how many passages those of others are asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr
from tests.scripted import ScriptedChat

from ragweave import build_graph
from ragweave.cli import options
from ragweave.serving.public_sources import PublicSources
from ragweave.tools.knowledge import RETRIEVERS, RetrieverKind, retriever_of
from ragweave.tools.retrieval import HybridRetriever, PassageRetriever, RerankRetriever
from ragweave.tools.retrieval.base import awaits


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


class Remote(BaseRetriever):
    """A retriever with async methods alone, as a client of a network may be."""

    k: int = 3

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise NotImplementedError

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        await asyncio.sleep(0)
        return [Document(f"Moon {n} of {query}.") for n in range(self.k)]


class Local(BaseRetriever):
    """A sync retriever that knows its thread."""

    _threads: list[str] = PrivateAttr(default_factory=list)

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        self._threads.append(threading.current_thread().name)
        return [Document("A moon.")]


def by_name(inner: BaseRetriever) -> PassageRetriever:
    made = RetrieverKind(name="x", summary="X.", make=lambda _kb, _k: inner, needs_kb=False)
    return retriever_of(made, None)


OVER: list[Callable[[BaseRetriever], PassageRetriever]] = [
    by_name,
    lambda inner: RerankRetriever.over(inner, Longest()),
    lambda inner: HybridRetriever(retrievers=[Local(), inner]),
    lambda inner: PublicSources(inner=by_name(inner)),
    lambda inner: RerankRetriever.over(HybridRetriever(retrievers=[by_name(inner)]), Longest()),
]


@pytest.mark.parametrize("over", OVER)
async def test_what_awaits_is_awaited_behind_other_retrievers(
    over: Callable[[BaseRetriever], PassageRetriever],
) -> None:
    found = over(Remote())
    assert awaits(found)
    passages = await found.ainvoke("Mars", k=2)
    assert [doc.metadata["rank"] for doc in passages] == [0, 1]
    assert any("of Mars" in doc.page_content and doc.id for doc in passages)
    assert await found.ainvoke(" ") == []
    graph = build_graph("concat", model=ScriptedChat(replies=["x"]), retriever=found, k=3)
    assert len((await graph.ainvoke({"question": "Mars?"}))["passages"]) == 3


@pytest.mark.parametrize("over", OVER)
async def test_what_does_not_await_is_searched_in_a_thread_that_ends_with_the_process(
    over: Callable[[BaseRetriever], PassageRetriever],
) -> None:
    local = Local()
    found = over(local)
    assert not awaits(found)
    graph = build_graph("concat", model=ScriptedChat(replies=["x"]), retriever=found)
    await graph.ainvoke({"question": "Mars?"})
    assert local._threads == ["ragweave"]


async def test_a_hybrid_of_both_kinds_keeps_its_sync_search_in_such_a_thread() -> None:
    local = Local()
    await HybridRetriever(retrievers=[local, Remote()]).ainvoke("Mars")
    assert local._threads == ["ragweave"]
