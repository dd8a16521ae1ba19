"""A conversation: follow-ups are restated, answers cite, and a record reaches the calling agent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from ragweave import build_chat
from ragweave.errors import UsageError
from ragweave.graphs.watch import Watch
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.footnotes import with_marks


def says(call: ModelCall) -> str:
    return "When was the bridge at Alden built?" if "Rewrite the last question" in call.text else "Ada Brenner"


def chat(**more: Any) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(script=says)
    return build_chat("concat", model=model, retriever=RecordingRetriever(), **more), model


def test_a_follow_up_is_restated_and_a_turn_counts_its_own_cost() -> None:
    graph, model = chat(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"messages": [("user", "Who built the bridge at Alden?")]}, thread)
    assert (first["usage"]["calls"], first["question"]) == (1, "Who built the bridge at Alden?")
    second = graph.invoke({"messages": [("user", "And when?")]}, thread, context={"k": 2})
    assert (second["usage"]["calls"], len(second["passages"]), len(second["messages"])) == (2, 2, 4)
    assert second["question"] == "When was the bridge at Alden built?"
    assert "Assistant: Ada Brenner" in model.calls[1].text


def test_the_whole_conversation_may_come_with_each_input() -> None:
    graph, _ = chat()
    messages = [HumanMessage("Who built the bridge?"), AIMessage("Ada Brenner"), HumanMessage("And when?")]
    assert graph.invoke({"messages": messages})["question"] == "When was the bridge at Alden built?"


def test_the_reply_cites_and_a_record_stands_beside_it() -> None:
    output = chat()[0].invoke({"messages": [("user", "Who built the bridge at Alden?")]})
    [block] = output["messages"][-1].content
    assert block["text"] == "Ada Brenner"
    assert block["annotations"][0]["cited_text"] == "The bridge at Alden was built by Ada Brenner in 1931."
    record = output["structured_response"]
    assert (record["answer"], record["status"]) == ("Ada Brenner", "answered")
    assert record["sources"][0] == "Card 0"
    assert record["usage"]["calls"] == 1
    assert record["citations"] == output["citations"]


def test_the_model_s_own_marks_give_way_to_the_citation() -> None:
    model = ScriptedModel(script=["The bridge at Alden was built by Ada Brenner [2]."])
    graph = build_chat("concat", model=model, retriever=RecordingRetriever(), answer_type="long")
    output = graph.invoke({"messages": [("user", "Who built the bridge at Alden?")]})
    [block] = output["messages"][-1].content
    assert block["text"] == "The bridge at Alden was built by Ada Brenner."
    assert [annotation["type"] for annotation in block["annotations"]] == ["citation"]
    assert with_marks(output["answer"], output["citations"]) == f"{block['text']} [1]"


def test_a_stream_of_messages_shows_the_answer_alone() -> None:
    graph, _ = chat(checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", "Who built the bridge?")]}, thread)

    async def streamed() -> list[Any]:
        ask = {"messages": [("user", "And when?")]}
        return [message async for message in graph.astream(ask, thread, stream_mode="messages")]

    assert [where["langgraph_node"] for _, where in asyncio.run(streamed())] == ["reply"]


def test_a_follow_up_of_a_long_answer_is_restated() -> None:
    graph, model = chat()
    turns = [("user", "Who built the bridge?"), ("ai", f"Ada Brenner. {'It is long. ' * 900}"), ("user", "And when?")]
    assert graph.invoke({"messages": turns})["question"] == "When was the bridge at Alden built?"
    assert "User: Who built the bridge?\nAssistant: Ada Brenner." in model.calls[0].text


@pytest.mark.parametrize("restated", ["x " * 400, "Unknown", "I'm sorry, I can't help with that."])
def test_an_unusable_restatement_leaves_the_question_as_asked(restated: str) -> None:
    model = ScriptedModel(script=lambda call: restated if "Rewrite" in call.text else "Ada")
    graph = build_chat("concat", model=model, retriever=RecordingRetriever())
    turns = [("user", "Who built it?"), ("ai", "Ada"), ("user", "And when?")]
    assert graph.invoke({"messages": turns})["question"] == "And when?"


STANDS_ALONE = [
    "Compare these two:\n- the bridge at Alden\n- the lighthouse of Norhaven\nWhich is older?",
    "I have read that the town hall at Alden burned down.\n\nWhen was that, and who had designed it?",
    "What does the handbook say on the question: may the bridge be closed?",
]


def asked_after(reply: str | AIMessage, question: str) -> str:
    model = ScriptedModel(script=lambda call: reply if "Rewrite" in call.text else "Ada")
    graph = build_chat("concat", model=model, retriever=RecordingRetriever())
    turns = [("user", "Who built it?"), ("ai", "Ada"), ("user", question)]
    return str(graph.invoke({"messages": turns})["question"])


@pytest.mark.parametrize("question", STANDS_ALONE)
@pytest.mark.parametrize("lead", ["", "Rewritten: ", "**Rewritten question:**\n\n"])
def test_every_line_of_a_restatement_is_asked(question: str, lead: str) -> None:
    assert asked_after(lead + question, question) == question


@pytest.mark.parametrize(
    "reply",
    [
        "When was the bridge at Alden built?",
        "When was the bridge at Alden built?\nAssistant: 1931\nUser: And by whom?",
        "Last question: When was the bridge at Alden built?",
        "Sure, here is the rewritten question: When was the bridge at Alden built?",
        "Here is the standalone version:\n\nWhen was the bridge at Alden built?\n\nIt names the bridge.",
        AIMessage(
            "Rewritten: When was the bridge at Alden built?\n\nConversation:\nUser: Who",
            response_metadata={"finish_reason": "length"},
        ),
    ],
)
def test_what_stands_around_a_restatement_is_not_asked(reply: str | AIMessage) -> None:
    assert asked_after(reply, "And when?") == "When was the bridge at Alden built?"


def test_a_restatement_that_was_cut_leaves_the_question_as_asked() -> None:
    cut = AIMessage("Why was the bridge that Ada Brenner", response_metadata={"finish_reason": "length"})
    assert asked_after(cut, "Why did she build it?") == "Why did she build it?"


def test_a_turn_that_fails_leaves_no_answer_of_the_turn_before() -> None:
    def fails(call: ModelCall) -> str:
        if call.node == "concat" and "When was" in call.last:
            raise ValueError("down")
        return "When was the bridge at Alden built?" if "Rewrite" in call.text else "Ada Brenner"

    graph = build_chat(
        "concat", model=ScriptedModel(script=fails), retriever=RecordingRetriever(), checkpointer=InMemorySaver()
    )
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke({"messages": [("user", "Who made the bridge?")]}, thread)
    with pytest.raises(ValueError, match="down"):
        graph.invoke({"messages": [("user", "And when?")]}, thread)
    left = graph.get_state(thread).values
    assert (left["question"], left["answer"], left["status"]) == ("When was the bridge at Alden built?", "", "unknown")
    assert (left["passages"], left["citations"], left["structured_response"]) == ([], [], None)


def test_a_conversation_needs_a_question() -> None:
    with pytest.raises(UsageError, match="the last message must be a question"):
        chat()[0].invoke({"messages": [("user", "Who?"), ("ai", "Ada")]})


async def test_a_note_of_the_method_is_shown_once() -> None:
    watch = Watch()
    served = build_chat("concat", model=ScriptedModel(script=[""]), retriever=RecordingRetriever())
    await watch.follow(served, {"messages": [("user", "Who built the bridge at Alden?")]})
    assert [note["event"] for note in watch.notes] == ["empty_reply"]
