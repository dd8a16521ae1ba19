"""The middlewares, in LangChain's own `create_agent`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from ragweave import KnowledgeBase, build_graph
from ragweave.agents import QuoteOrMark, RetrieveWhenUncertain
from ragweave.testing import CARDS, RecordingRetriever, ScriptedModel, unsure
from ragweave.tools.footnotes import MEANING


class ToolCaller(ScriptedModel):
    """A scripted model that takes tools, as an agent's model must."""

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


QUESTION = {"messages": [("user", "Who built the bridge at Alden?")]}


def agent_of(model: Any, *middleware: Any, tools: Any = (), **more: Any) -> Any:
    return create_agent(model, list(tools), middleware=middleware, **more)


@pytest.mark.parametrize(("draft", "searches"), [(unsure("Bob", Bob=0.5), 1), (unsure("Ada Brenner", Bob=0.5), 0)])
def test_it_searches_where_the_draft_is_uncertain(draft: AIMessage, searches: int) -> None:
    retriever, drafter = RecordingRetriever(), ScriptedModel(script={"gate": draft})
    model = ScriptedModel(script=["Ada Brenner built it."])
    agent = agent_of(model, RetrieveWhenUncertain(retriever, drafter, k=2))
    out = agent.invoke(QUESTION)
    assert len(retriever.searches) == searches
    assert len(out["passages"]) == 2 * searches
    assert (CARDS[0].page_content in model.calls[0].text) == bool(searches)
    assert [message.text for message in out["messages"]] == ["Who built the bridge at Alden?", "Ada Brenner built it."]


def test_a_question_in_blocks_stays_one() -> None:
    blocks = [{"type": "text", "text": "Who built the bridge at Alden?"}]
    model, drafter = ScriptedModel(script=["Ada Brenner."]), ScriptedModel(script=[unsure("Bob", Bob=0.5)])
    agent_of(model, RetrieveWhenUncertain(RecordingRetriever(), drafter)).invoke({"messages": [("user", blocks)]})
    found, *own = model.calls[0].messages[-1].content
    assert (found["type"], own) == ("text", blocks)


def test_async_is_sync_and_a_second_question_starts_clean() -> None:
    drafter = ScriptedModel(script=[unsure("Bob", Bob=0.5), unsure("Ada Brenner")])
    model = ScriptedModel(script=["Ada Brenner.", "You are welcome."])
    agent = agent_of(model, RetrieveWhenUncertain(RecordingRetriever(), drafter), checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    assert asyncio.run(agent.ainvoke(QUESTION, config))["passages"]
    assert agent.invoke({"messages": [("user", "Thank you.")]}, config)["passages"] == []


def test_each_sentence_is_quoted_or_marked() -> None:
    answer = "The bridge at Alden was built by Ada Brenner. It glows at night."
    retrieved = {"passages": CARDS[:3]}
    own_marks = "The bridge at Alden was built by Ada Brenner [1]. It glows at night [2]."
    shown = agent_of(ScriptedModel(script=[own_marks]), QuoteOrMark()).invoke({**QUESTION, **retrieved})
    text = shown["messages"][-1].text
    assert text.startswith("The bridge at Alden was built by Ada Brenner.\n> “")
    assert text.endswith(f"It glows at night. [unsupported]\n\n{MEANING}")
    annotated = agent_of(ScriptedModel(script=[answer]), QuoteOrMark(show="annotations")).invoke(
        {**QUESTION, **retrieved}
    )
    message = annotated["messages"][-1]
    assert message.text == answer
    quoted, unsupported = message.content_blocks[0]["annotations"]
    assert (quoted["type"], unsupported["type"]) == ("citation", "non_standard_annotation")
    assert quoted["extras"]["meaning"] == MEANING
    assert annotated["citations"] == shown["citations"]


def test_passages_come_from_a_graph_as_a_tool() -> None:
    rag = build_graph("concat", model=ScriptedModel(script=["Ada Brenner"]), retriever=RecordingRetriever(), k=2)
    call = {"name": "library", "args": {"question": "Who built the bridge at Alden?"}, "id": "1"}
    model = ToolCaller(script=[AIMessage("", tool_calls=[call]), "Ada Brenner built the bridge at Alden."])
    tool = rag.as_tool(name="library", description="Answers questions about Alden.")
    out = agent_of(model, QuoteOrMark(), tools=[tool]).invoke(QUESTION)
    answered = next(message for message in out["messages"] if isinstance(message, ToolMessage))
    assert answered.text.startswith("Ada Brenner\n\nSources:")
    assert answered.artifact["usage"]["calls"] == 1
    assert out["citations"][0]["quotes"]


@tool(response_format="content_and_artifact")
def year() -> tuple[str, int]:
    """Say the year."""
    return "1931", 1931


def test_passages_come_from_the_tools_of_a_knowledge_base(tmp_path: Path) -> None:
    (tmp_path / "alden.txt").write_text("The bridge at Alden was built by Ada Brenner in 1931.", "utf-8")
    with KnowledgeBase.create(tmp_path / "kb") as kb:
        kb.index_paths([tmp_path / "alden.txt"])
        call = {"name": "keyword_search", "args": {"keywords": "bridge, Alden"}, "id": "1"}
        other = {"name": "year", "args": {}, "id": "2"}
        model = ToolCaller(script=[AIMessage("", tool_calls=[call, other]), "Ada Brenner built the bridge at Alden."])
        out = agent_of(model, QuoteOrMark(), tools=[*kb.as_tools(), year]).invoke(QUESTION)
    quote = "> “The bridge at Alden was built by Ada Brenner in 1931.” (alden — alden.txt)"
    assert out["messages"][-1].text.endswith(f"{quote}\n\n{MEANING}")
