"""Search as an agent's tools."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from ragweave.testing.store import WordEmbeddings
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase
from ragweave.tools.retrieval import DenseRetriever, toolkit


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    chapters = [
        f"Chapter {number}. The stone of arch {number} came from Veld. " + "It is very old. " * 5 for number in range(5)
    ]
    with KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(size=30, embedding=None)) as base:
        base.add(Document("\n\n".join(chapters), metadata={"title": "Alden", "open": 1}))
        base.add(Document("A ferry.", metadata={"title": "Sorre", "open": 0}))
        yield base


def name_of(lines: str) -> str:
    return lines.splitlines()[0].removeprefix("- ").partition(":")[0]


def asked(tools: list[Any], before: list[BaseMessage], name: str, **arguments: Any) -> list[BaseMessage]:
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "tools")
    call = AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call-{len(before)}"}])
    messages: list[BaseMessage] = graph.compile().invoke({"messages": [*before, call]})["messages"]
    return messages


def test_an_agent_reads_what_it_found_with_its_neighbours_once(kb: KnowledgeBase) -> None:
    tools = kb.as_tools(k=2)
    assert [sorted(tool.args) for tool in tools] == [["keywords"], ["query"], ["ids"]]
    messages = asked(tools, [], "keyword_search", keywords="arch 3, stone")
    assert str(messages[-1].content).splitlines()[0].endswith("Alden: The stone of arch 3 came from Veld.")
    name = name_of(str(messages[-1].content))
    messages = asked(tools, messages, "read", ids=[name])
    assert [passage.page_content[:9] for passage in messages[-1].artifact] == ["Chapter 2", "Chapter 3", "Chapter 4"]  # type: ignore[attr-defined]
    assert f'<passage {name} title="Alden">\nChapter 3.' in str(messages[-1].content)
    messages = asked(tools, messages, "read", ids=[name, "zz"])
    assert (
        str(messages[-1].content) == f"{toolkit.READ_BEFORE.format(name=name)}\n{toolkit.NO_PASSAGE.format(name='zz')}"
    )


def test_a_passage_without_known_neighbours_is_read_alone() -> None:
    tools = toolkit.search_tools(DenseRetriever.from_documents([Document("A ferry.", id="f")], WordEmbeddings(512)))
    other = ToolMessage("7", name="add", artifact=7, tool_call_id="sum")
    messages = asked(tools, asked(tools, [other], "semantic_search", query="ferry"), "read", ids=["f"])
    assert messages[-1].content == "<passage f>\nA ferry.\n</passage>"
    assert asked(tools, messages, "read", ids=["f"])[-1].content == toolkit.READ_BEFORE.format(name="f")


def test_neighbours_end_with_the_document_and_pass_the_filter(kb: KnowledgeBase) -> None:
    (ferry,) = kb.as_retriever(k=1).invoke("ferry")
    assert [passage.id for passage in toolkit.around(kb.as_retriever(), str(ferry.id), 5)] == [ferry.id]
    assert toolkit.around(kb.as_retriever(filter={"open": 1}), str(ferry.id), 5) == []
    assert toolkit.around(kb.as_retriever(), "zz", 1) == []


def test_the_best_sentence_ranks_a_passage() -> None:
    texts = ["Bells rang. Alden has a bridge of grey granite. It rained.", "Alden has a bridge. " * 3]
    retriever = DenseRetriever.from_documents(map(Document, texts), WordEmbeddings(512))
    first, *_ = toolkit.semantic_search(retriever).invoke("Alden has a bridge of grey granite.", k=2)
    assert (first.page_content, first.metadata["snippet"]) == (texts[0], "Alden has a bridge of grey granite.")


def test_words_are_found_exactly_else_what_the_search_found() -> None:
    texts = ["The ferryman rang.", "A Ferry crossed the Sorre. The ferry sank."]
    retriever = DenseRetriever.from_documents(map(Document, texts), WordEmbeddings(512))
    search = toolkit.keyword_search(retriever)
    assert [passage.page_content for passage in search.invoke("ferry crossed, sank")] == texts[1:]
    assert len(search.invoke("lighthouse")) == 2


class OneWord(WordEmbeddings):
    """Embeds a text without the word `granite` as zeros."""

    def embed_query(self, text: str) -> list[float]:
        return [float("granite" in text), 0.0]


def test_a_sentence_without_a_vector_is_not_near() -> None:
    texts = ["It rained. Bells rang.", "It rained. It is of granite."]
    retriever = DenseRetriever.from_documents(map(Document, texts), OneWord())
    (found,) = toolkit.semantic_search(retriever).invoke("granite", k=2)
    assert (found.page_content, found.metadata["snippet"]) == (texts[1], "It is of granite.")
