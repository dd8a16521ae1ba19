"""Methods that loop, with a checkpointer: a thread's next question starts anew."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from tests.scripted import ListRetriever, Seen, documents
from tests.unsure import UnsureChat

from ragweave.graphs import build_graph

DOCS = documents("Ada Brenner built the light.", "It stands in Norland.")
METHODS = ["iter_retgen", "self_ask", "react", "flare"]


def say(seen: Seen) -> str:
    """Look something up once, in the form of whichever method asks."""
    text = seen.text
    if "Observation 1:" in text.rpartition("Question: ")[2]:
        return "Action 2: Finish[Norland]"
    if "Now write Thought 1 " in text:
        return "Action 1: Search[the light]"
    if text.endswith("Are follow up questions needed here:"):
        return "Yes.\nFollow up: Who built the light?"
    return "It is in Norland~0.5. So the answer is Norland."


def built(method: str, **more: Any) -> Any:
    model = UnsureChat(replies=say)
    return build_graph(method, model=model, retriever=ListRetriever(documents=DOCS), **more)


@pytest.mark.parametrize("method", METHODS)
def test_the_next_question_of_a_thread_starts_anew(method: str) -> None:
    graph = built(method, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    first = graph.invoke({"question": "Where is the light?"}, thread)
    second = graph.invoke({"question": "Where is the light?"}, thread)
    assert first == second
    assert (first["answer"], first["status"], first["truncated"]) == ("Norland", "answered", False)
    assert first["usage"]["retrievals"] >= 1
    assert len(first["passages"]) == 2


@pytest.mark.parametrize("method", METHODS)
def test_given_passages_do_not_count_for_the_next_question(method: str) -> None:
    graph = built(method, checkpointer=InMemorySaver())
    thread: Any = {"configurable": {"thread_id": "1"}}
    given = graph.invoke({"question": "Where?", "passages": ["It is in Norland."]}, thread)
    assert given["usage"]["retrievals"] == 0
    assert [doc.page_content for doc in given["passages"]] == ["It is in Norland."]
    after = graph.invoke({"question": "Where is the light?"}, thread)
    assert after["usage"]["retrievals"] >= 1
    assert {doc.id for doc in after["passages"]} == {"p0", "p1"}


@pytest.mark.parametrize("method", METHODS)
def test_a_transient_error_in_a_round_is_tried_again(method: str) -> None:
    errors = iter([ConnectionError("dropped"), None])

    def once(seen: Seen) -> Any:
        return next(errors, None) or say(seen)

    graph = build_graph(
        method, model=UnsureChat(replies=once), retriever=ListRetriever(documents=DOCS)
    )
    assert graph.invoke({"question": "Where is the light?"})["answer"] == "Norland"


@pytest.mark.parametrize("method", METHODS)
def test_the_context_schema_is_json(method: str) -> None:
    schema = built(method).get_context_jsonschema()
    assert schema is not None
    assert {"k", "timeout"} <= set(schema["properties"])
