"""What deepagents makes of a conversation as its subagent; run by `test_deepagents.py` beside the real package."""

from __future__ import annotations

import json
from typing import Any

from deepagents import CompiledSubAgent, create_deep_agent
from langchain_core.messages import AIMessage, ToolMessage

from ragweave import build_chat
from ragweave.agents import QuoteOrMark
from ragweave.testing import RecordingRetriever, ScriptedModel

TASK = {"description": "Who built the bridge at Alden?", "subagent_type": "library"}


class Supervisor(ScriptedModel):
    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


def run(*tasks: dict[str, Any]) -> dict[str, Any]:
    answering = ScriptedModel(script=["Ada Brenner"])
    chat = build_chat("concat", model=answering, retriever=RecordingRetriever(), k=2)
    library = CompiledSubAgent(name="library", description="Answers questions about Alden.", runnable=chat)
    calls = [{"name": "task", "args": task, "id": str(number)} for number, task in enumerate(tasks)]
    script = [AIMessage("", tool_calls=calls), "The bridge at Alden was built by Ada Brenner."]
    agent = create_deep_agent(model=Supervisor(script=script), subagents=[library], middleware=[QuoteOrMark()])
    return agent.invoke({"messages": [("user", "Who built it?")]})


def test_answer_quotes_and_cost_reach_the_parent() -> None:
    out = run(TASK)
    record = json.loads(next(message for message in out["messages"] if isinstance(message, ToolMessage)).text)
    assert (record["answer"], record["status"]) == ("Ada Brenner", "answered")
    assert record["citations"][0]["quotes"][0]["text"].startswith("The bridge at Alden was built by Ada Brenner")
    assert record["usage"]["calls"] == 1
    assert record["sources"] == ["Card 0", "Card 1"]


def test_subagents_that_run_side_by_side_bring_their_passages() -> None:
    out = run(TASK, {**TASK, "description": "Which river runs under the bridge at Alden?"})
    assert "> “The bridge at Alden was built by Ada Brenner in 1931.”" in out["messages"][-1].text
