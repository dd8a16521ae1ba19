"""Threads: checkpoints on disk, human edits between nodes, and a second question."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.errors import RunTimeoutError, UsageError
from ragweave.state import RAGState

THREAD: RunnableConfig = {"configurable": {"thread_id": "t"}}
PASSAGES = [
    Document(
        page_content="The Louvre is in Paris.", id="p0", metadata={"title": "Louvre", "page": 3}
    ),
    Document(page_content="Rome is old.", id="p1", metadata={"tags": ["a", "b"]}),
]
QUESTION: Any = {"question": "Where is the Louvre?"}


def paris(seen: Seen) -> str:
    return "Paris" if any("Paris" in text for text in seen.passages) else "Unknown"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SqliteSaver]:
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        yield saver


@pytest.fixture
async def async_disk(tmp_path: Path) -> AsyncIterator[AsyncSqliteSaver]:
    async with AsyncSqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
        yield saver


def graph(method: str, saver: Any, replies: Any = paris, **settings: Any) -> Any:
    return build_graph(
        method,
        model=ScriptedChat(replies=replies, usage=(10, 1)),
        retriever=settings.pop("retriever", ListRetriever(documents=PASSAGES)),
        checkpointer=saver,
        **settings,
    )


# -- round trip --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["concat", "post_fusion", "concat_pf", "pf_concat"])
def test_the_state_survives_on_disk(method: str, tmp_path: Path) -> None:
    path = str(tmp_path / "threads.sqlite")
    with SqliteSaver.from_conn_string(path) as saver:
        out = graph(method, saver).invoke(QUESTION, THREAD)
    with SqliteSaver.from_conn_string(path) as saver:
        held = graph(method, saver).get_state(THREAD).values
    assert {key: held[key] for key in out} == out
    assert held["passages"][0].metadata["title"] == "Louvre"
    assert isinstance(held["passages"][0], Document)
    assert "deadline" not in held


async def test_the_state_survives_on_disk_async(async_disk: AsyncSqliteSaver) -> None:
    one = graph("concat_pf", async_disk)
    out = await one.ainvoke(QUESTION, THREAD)
    held = (await one.aget_state(THREAD)).values
    assert {key: held[key] for key in out} == out


def test_the_state_is_plain_json_but_for_documents(disk: SqliteSaver) -> None:
    one = graph("pf_concat", disk)
    one.invoke(QUESTION, THREAD)
    values = one.get_state(THREAD).values
    text = json.dumps(values, default=lambda doc: doc.model_dump())
    assert json.loads(text)["answer"] == "Paris"


def test_every_step_is_in_the_history(disk: SqliteSaver) -> None:
    one = graph("concat", disk)
    one.invoke(QUESTION, THREAD)
    ahead = [state.next for state in one.get_state_history(THREAD)]
    assert ahead[::-1] == [
        ("__start__",),
        ("begin",),
        ("retrieve",),
        ("collect",),
        ("concat",),
        ("vote",),
        (),
    ]


# -- a human between two nodes -----------------------------------------------------------------


def test_passages_edited_before_the_answer_are_the_ones_read(tmp_path: Path) -> None:
    path = str(tmp_path / "threads.sqlite")
    with SqliteSaver.from_conn_string(path) as saver:
        paused = graph("concat", saver, retriever=ListRetriever(documents=[PASSAGES[1]]))
        paused.invoke(QUESTION, THREAD, interrupt_before=["concat"])
        state = paused.get_state(THREAD)
        assert set(state.next) == {"concat"}
        assert [doc.id for doc in state.values["passages"]] == ["p1"]
        assert "answer" not in state.values or state.values["answer"] == ""
        paused.update_state(THREAD, {"passages": [*state.values["passages"], PASSAGES[0]]})
    with SqliteSaver.from_conn_string(path) as saver:
        resumed = graph("concat", saver, retriever=ListRetriever())
        out = resumed.invoke(None, THREAD)
    assert (out["answer"], out["status"]) == ("Paris", "answered")
    assert [doc.id for doc in out["passages"]] == ["p1", "p0"]
    assert out["candidates"]["concat:0"]["passages"] == ["p1", "p0"]


@pytest.mark.parametrize("method", ["post_fusion", "concat_pf", "pf_concat"])
def test_a_paused_run_goes_on_as_if_it_had_not_been(method: str, disk: SqliteSaver) -> None:
    straight = build_graph(
        method,
        model=ScriptedChat(replies=paris, usage=(10, 1)),
        retriever=ListRetriever(documents=PASSAGES),
    ).invoke(QUESTION)
    paused = graph(method, disk)
    out = paused.invoke(QUESTION, THREAD, interrupt_before="*")
    for _ in range(12):
        if not paused.get_state(THREAD).next:
            break
        out = paused.invoke(None, THREAD, interrupt_before="*")
    assert paused.get_state(THREAD).next == ()
    assert {key: out[key] for key in straight} == straight


def test_a_pause_does_not_count_against_the_time_limit(disk: SqliteSaver) -> None:
    paused = graph("concat", disk, timeout=0.5)
    paused.invoke(QUESTION, THREAD, interrupt_before=["concat"])
    time.sleep(0.6)
    assert paused.invoke(None, THREAD)["answer"] == "Paris"


@pytest.mark.parametrize("where", ["build", "context"])
@pytest.mark.parametrize("goes_on", [None, Command(resume=True)])
def test_a_resumed_run_has_a_time_limit(where: str, goes_on: Any, disk: SqliteSaver) -> None:
    graph("concat", disk).invoke(QUESTION, THREAD, interrupt_before=["concat"])
    limit = {"timeout": 0.05}
    resumed = build_graph(
        "concat",
        model=ScriptedChat(replies=["Paris"], delay=5.0),
        checkpointer=disk,
        **limit if where == "build" else {},
    )
    with pytest.raises(RunTimeoutError):
        resumed.invoke(goes_on, THREAD, context=limit if where == "context" else None)


def test_a_graph_bound_to_its_thread_is_resumed_there(disk: SqliteSaver) -> None:
    bound = graph("concat", disk, timeout=60.0).with_config(THREAD)
    bound.invoke(QUESTION, interrupt_before=["concat"])
    assert bound.invoke(None)["answer"] == "Paris"


def test_a_resumed_subgraph_has_a_time_limit() -> None:
    slow = ScriptedChat(replies=["Paris"], delay=5.0)
    given = ListRetriever(documents=PASSAGES)
    outer = StateGraph(RAGState)
    outer.add_node("method", build_graph("concat", model=slow, retriever=given, timeout=0.05))
    outer.add_edge(START, "method")
    app = outer.compile(checkpointer=InMemorySaver())
    for question in (QUESTION, None):
        with pytest.raises(RunTimeoutError):
            app.invoke(question, THREAD)


@pytest.mark.parametrize("ended", ["refused", "paused"])
def test_passages_of_an_input_that_was_not_taken_up_are_gone(ended: str, disk: SqliteSaver) -> None:
    retriever = ListRetriever(documents=PASSAGES)
    one = graph("concat", disk, retriever=retriever)
    given = {"passages": documents("Rome it was."), "answer_type": "long", "gold_answers": ["x"]}
    if ended == "paused":
        one.invoke({**QUESTION, **given}, THREAD, interrupt_before=["begin"])
    else:
        with pytest.raises(UsageError):
            one.invoke({"question": " ", **given}, THREAD)
    out = one.invoke(QUESTION, THREAD)
    assert retriever.queries == [QUESTION["question"]]
    assert out["answer"] == "Paris"
    assert one.get_state(THREAD).values["gold"] == []


def test_they_are_gone_too_where_a_node_of_another_graph_asks(disk: SqliteSaver) -> None:
    retriever = ListRetriever(documents=PASSAGES)
    one = graph("concat", disk, retriever=retriever)
    inner: RunnableConfig = {"configurable": {"thread_id": "inner", "checkpoint_ns": ""}}
    with pytest.raises(UsageError):
        one.invoke({"question": " ", "passages": documents("Rome it was.")}, inner)
    outer: Any = StateGraph(RAGState)
    outer.add_node(
        "ask",
        lambda state: {"question": one.invoke({"question": state["question"]}, inner)["answer"]},
    )
    outer.add_edge(START, "ask")
    assert outer.compile().invoke(QUESTION)["question"] == "Paris"
    assert retriever.queries == [QUESTION["question"]]


@pytest.mark.parametrize("given", [{"passages": PASSAGES}, {}, {"answer_type": "long"}])
async def test_a_threads_question_is_not_asked_again_unasked(
    given: Any, async_disk: AsyncSqliteSaver
) -> None:
    one = graph("concat", async_disk)
    await one.ainvoke(QUESTION, THREAD)
    with pytest.raises(UsageError, match="the input has no question"):
        await one.ainvoke(given, THREAD)


def test_passages_edited_by_hand_do_not_count_for_the_next_question(disk: SqliteSaver) -> None:
    one = graph("concat", disk, retriever=ListRetriever(documents=[PASSAGES[1]]))
    one.invoke(QUESTION, THREAD, interrupt_before=["concat"])
    one.update_state(THREAD, {"passages": [PASSAGES[0]]})
    assert one.invoke(None, THREAD)["answer"] == "Paris"
    out = one.invoke({"question": "Where else?"}, THREAD)
    assert [doc.id for doc in out["passages"]] == ["p1"]


# -- a second question -------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["concat", "post_fusion", "concat_pf", "pf_concat"])
@pytest.mark.parametrize("first", [QUESTION, {**QUESTION, "passages": PASSAGES}])
def test_nothing_of_the_first_question_leaks(method: str, first: Any) -> None:
    fresh = graph(method, InMemorySaver())
    expected = fresh.invoke({"question": "Which city is old?"}, THREAD)
    used = graph(method, InMemorySaver())
    used.invoke({**first, "answer_type": "long"}, THREAD)
    out = used.invoke({"question": "Which city is old?"}, THREAD)
    assert out == expected
    assert out["usage"]["retrievals"] == 1


def test_the_answer_type_of_one_question_is_not_the_nexts(disk: SqliteSaver) -> None:
    one = graph("concat", disk, ["Yes, it is."])
    assert one.invoke({**QUESTION, "answer_type": "yes_no"}, THREAD)["answer"] == "Yes"
    assert one.invoke(QUESTION, THREAD)["answer"] == "Yes, it is"


def test_passages_given_with_the_second_question_are_used(disk: SqliteSaver) -> None:
    retriever = ListRetriever(documents=PASSAGES)
    one = graph("concat", disk, retriever=retriever)
    one.invoke(QUESTION, THREAD)
    out = one.invoke({"question": "And now?", "passages": documents("Paris again.")}, THREAD)
    assert [doc.page_content for doc in out["passages"]] == ["Paris again."]
    assert len(retriever.queries) == 1
    assert out["usage"]["retrievals"] == 0


def test_passages_of_the_first_question_are_not_given_for_the_second(disk: SqliteSaver) -> None:
    retriever = ListRetriever(documents=[PASSAGES[1]])
    one = graph("concat", disk, retriever=retriever)
    one.invoke({**QUESTION, "passages": documents("Paris it is.")}, THREAD)
    out = one.invoke({"question": "And now?"}, THREAD)
    assert [doc.id for doc in out["passages"]] == ["p1"]
    assert retriever.queries == ["And now?"]


def test_an_output_fed_back_as_input_is_given(disk: SqliteSaver) -> None:
    retriever = ListRetriever(documents=PASSAGES)
    one = graph("concat", disk, retriever=retriever)
    out = one.invoke(QUESTION, THREAD)
    one.invoke({"question": "And now?", "passages": out["passages"]}, THREAD)
    assert retriever.queries == [QUESTION["question"]]


def test_threads_are_apart(disk: SqliteSaver) -> None:
    one = graph("concat", disk)
    one.invoke(QUESTION, THREAD)
    other: RunnableConfig = {"configurable": {"thread_id": "other"}}
    one.invoke({"question": "Which?"}, other)
    assert one.get_state(THREAD).values["question"] == QUESTION["question"]
    assert one.get_state(other).values["question"] == "Which?"


def test_a_failed_run_can_be_taken_up_again(disk: SqliteSaver) -> None:
    one = graph("concat", disk, [LookupError("down"), "Paris"])
    with pytest.raises(LookupError):
        one.invoke(QUESTION, THREAD)
    assert one.get_state(THREAD).next == ("concat",)
    out = one.invoke(None, THREAD)
    assert (out["answer"], out["usage"]["retrievals"]) == ("Paris", 1)
