"""A conversation over a method: restated, answered, cited, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, RetryPolicy
from tests.scripted import ListRetriever, ScriptedChat, Seen, SyncScriptedChat, documents
from tests.tiny_parts import finish
from typing_extensions import TypedDict

from ragweave import METHODS, build_chat
from ragweave.errors import RunTimeoutError, UsageError
from ragweave.graphs.chat import restater_of
from ragweave.tools.citations import check_citations
from ragweave.tools.text.normalize import estimate_message_tokens
from ragweave.trained.chat import PartChat

TEXTS = (
    "The bridge at Alden was opened in 1932. It was painted grey.",
    "Ada Brenner built the bridge at Alden. She studied in Norhaven.",
)
FIRST, FOLLOW_UP = "Who built the bridge at Alden?", "And when was it opened?"
RESTATED = "When was the bridge at Alden opened?"
ASKED = {"messages": [("user", FIRST)]}


def said(seen: Seen) -> str:
    """Restate the follow-up; answer by the question."""
    if seen.task.get("task") == "restate":
        return RESTATED
    return "1932" if RESTATED in seen.text else "Ada Brenner"


def chat(name: str = "concat", **more: Any) -> Any:
    model = more.pop("model", None) or ScriptedChat(replies=said, usage=(10, 2))
    retriever = ListRetriever(documents=documents(*TEXTS))
    return build_chat(name, model=model, retriever=retriever, **more)


def test_the_answer_is_a_message_with_citations() -> None:
    out = chat().invoke(ASKED)
    answer = out["messages"][-1]
    assert isinstance(answer, AIMessage)
    assert answer.text == out["answer"] == "Ada Brenner"
    (block,) = answer.content_blocks
    (cited,) = block["annotations"]  # type: ignore[typeddict-item]
    assert cited["cited_text"] == "Ada Brenner built the bridge at Alden."
    check_citations(out["answer"], out["passages"], out["citations"])
    assert answer.usage_metadata == {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}


def test_a_first_question_is_not_restated() -> None:
    model = ScriptedChat(replies=said)
    out = chat(model=model).invoke(ASKED)
    assert [one.task["task"] for one in model.seen] == ["answer"]
    assert out["question"] == FIRST


@pytest.mark.parametrize("threads", [True, False])
def test_a_follow_up_is_restated_with_what_was_said(threads: bool) -> None:
    model = ScriptedChat(replies=said)
    talk = chat(model=model, checkpointer=InMemorySaver() if threads else None)
    config: Any = {"configurable": {"thread_id": "1"}}
    first = talk.invoke(ASKED, config)
    new = [HumanMessage(FOLLOW_UP)]
    out = talk.invoke({"messages": new if threads else [*first["messages"], *new]}, config)
    assert out["question"] == RESTATED
    assert out["answer"] == "1932"
    assert [one.text for one in out["messages"]] == [FIRST, "Ada Brenner", FOLLOW_UP, "1932"]
    restating = next(one for one in model.seen if one.task["task"] == "restate")
    assert "User: " + FIRST + "\nAssistant: Ada Brenner" in restating.text
    assert restating.task["candidates"] == [FIRST]


def test_each_turn_starts_clean_and_counts_its_own_calls() -> None:
    talk = chat(model=ScriptedChat(replies=said, usage=(10, 2)), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    out = talk.invoke({"messages": [("user", FOLLOW_UP)]}, config)
    assert set(out["usage"]["by_node"]) == {"restate", "concat"}
    assert out["usage"]["calls"] == 2
    assert len(out["candidates"]) == 1
    assert {doc.metadata["query"] for doc in out["passages"]} == {"question"}


def test_an_unreadable_restatement_leaves_the_question_as_it_was() -> None:
    def stubborn(seen: Seen) -> str:
        return "I won't." if seen.task["task"] == "restate" else "1932"

    talk = chat(model=ScriptedChat(replies=stubborn), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    out = talk.invoke({"messages": [("user", FOLLOW_UP)]}, config)
    assert out["question"] == FOLLOW_UP
    notes = talk.get_state(config).values["notes"]
    assert [note["event"] for note in notes] == ["restate_unread"]


@pytest.mark.parametrize(
    ("asked", "reply", "question"),
    [
        ("who paid for it", "Norhaven", "who paid for it"),
        ("and when was it opened", f"Here it is:\n{RESTATED}", RESTATED),
        ("tell me about it", "Tell me about Alden.", "Tell me about Alden."),
    ],
)
def test_a_follow_up_without_a_question_mark(asked: str, reply: str, question: str) -> None:
    talk = chat(restater=ScriptedChat(replies=[reply]))
    given = [("user", FIRST), ("ai", "Ada Brenner"), ("user", asked)]
    assert talk.invoke({"messages": given})["question"] == question


class CutOff(ScriptedChat):
    """Reports that its replies ended at their limit."""

    def _result(self, said: Any) -> Any:
        result = super()._result(said)
        result.generations[0].message.response_metadata["finish_reason"] = "length"
        return result


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ("When was the bridge at Alden? In which", FOLLOW_UP),
        (f"{RESTATED}\nAssistant: It was", RESTATED),
    ],
)
def test_a_restatement_that_was_cut_is_not_asked(reply: str, question: str) -> None:
    restater = CutOff(replies=[reply])
    talk = chat(restater=restater, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    given = [("user", FIRST), ("ai", "Ada Brenner"), ("user", FOLLOW_UP)]
    out = talk.invoke({"messages": given}, config)
    assert out["question"] == question
    events = [one["event"] for one in talk.get_state(config).values["notes"]]
    assert ("restate_unread" in events) == (question == FOLLOW_UP)


def test_a_long_follow_up_has_room_to_be_restated() -> None:
    restater = ScriptedChat(replies=[RESTATED])
    asked = "And when was it opened? " + "It is near the old mill. " * 40
    given = [("user", FIRST), ("ai", "Ada Brenner"), ("user", asked)]
    chat(restater=restater).invoke({"messages": given})
    assert 300 < restater.seen[0].settings["max_tokens"] < 512


@pytest.mark.parametrize("tokens", [200, 240, 300, 1_000])
@pytest.mark.parametrize("words", [1, 60, 1_000])
@pytest.mark.parametrize("by_context", [False, True])
def test_what_was_said_is_cut_to_the_prompts_budget(
    tokens: int, words: int, by_context: bool
) -> None:
    limit: Any = {"prompt_tokens": tokens}
    profile = {"max_input_tokens": tokens + 512} if by_context else None
    restater = ScriptedChat(replies=[RESTATED], profile=profile)
    talk = chat(restater=restater, **({} if by_context else limit))
    given = [("user", FIRST), ("ai", "granite " * words), ("user", FOLLOW_UP)]
    out = talk.invoke({"messages": given})
    assert out["question"] == RESTATED
    (seen,) = restater.seen
    assert estimate_message_tokens(seen.messages) <= tokens
    assert "Assistant: granite" in seen.text


@pytest.mark.parametrize("asked", [FOLLOW_UP, "and when " * 12 + "<passage> was it opened?"])
def test_a_follow_up_stays_as_it_is_where_no_turn_fits(asked: str) -> None:
    restater = ScriptedChat(replies=[RESTATED], profile={"max_input_tokens": 512 + 100})
    talk = chat(restater=restater, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    out = talk.invoke({"messages": [("user", asked)]}, config)
    assert (out["question"], restater.seen) == (asked, [])
    notes = talk.get_state(config).values["notes"]
    assert [note["event"] for note in notes] == ["restate_no_room"]


def test_the_embedded_model_restates_by_topic() -> None:
    talk = chat(model="extractive?similarity=lexical", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke({"messages": [("user", "Who built the Alden Bridge?")]}, config)
    out = talk.invoke({"messages": [("user", FOLLOW_UP)]}, config)
    assert out["question"] == "And when was Alden Bridge opened?"
    assert "1932" in out["answer"]


def falls_back(seen: Seen) -> str:
    return "Unknown" if len(seen.passages) > 1 else "Ada Brenner and sons"


async def test_a_stream_shows_the_final_answer_alone() -> None:
    talk = chat("concat_pf", model=ScriptedChat(replies=falls_back))
    sync = [chunk for chunk, _ in talk.stream(ASKED, stream_mode="messages")]
    chunks = [chunk async for chunk, _ in talk.astream(ASKED, stream_mode="messages")]
    for shown in (sync, chunks):
        assert [chunk.text for chunk in shown if chunk.text] == ["Ada", " Brenner", " and", " sons"]
        whole = shown[0]
        for chunk in shown[1:]:
            whole += chunk
        assert whole.text == "Ada Brenner and sons"
        (block,) = whole.content
        assert block["annotations"]
        assert len({chunk.id for chunk in shown}) == 1


class Ended(BaseCallbackHandler):
    """Keeps what the model calls of a run report to tracers."""

    def __init__(self) -> None:
        self.usage: list[Any] = []

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        self.usage += [one.message.usage_metadata for (one,) in response.generations]  # type: ignore[union-attr]


@pytest.mark.parametrize("streams", [False, True])
def test_tracers_count_what_a_turn_cost_once(streams: bool) -> None:
    ended, mode = Ended(), "messages" if streams else "values"
    list(chat().stream(ASKED, {"callbacks": [ended]}, stream_mode=mode))
    assert [one["total_tokens"] for one in ended.usage if one] == [12]


@pytest.fixture
def cached() -> Iterator[None]:
    set_llm_cache(InMemoryCache())
    yield
    set_llm_cache(None)


@pytest.mark.usefixtures("cached")
async def test_a_cache_for_all_models_says_no_old_answer() -> None:
    for answer in ("Ada", "Karl Oster"):
        talk = chat(model=ScriptedChat(replies=[answer], cache=False))
        sync = [chunk for chunk, _ in talk.stream(ASKED, stream_mode="messages")]
        chunks = [chunk async for chunk, _ in talk.astream(ASKED, stream_mode="messages")]
        for shown in (sync, chunks):
            assert "".join(chunk.text for chunk in shown) == answer
            assert len({chunk.id for chunk in shown}) == 1


async def test_sync_and_async_agree() -> None:
    one, other = chat().invoke(ASKED), await chat().ainvoke(ASKED)
    assert one["answer"] == other["answer"]
    assert one["citations"] == other["citations"]


@pytest.mark.parametrize("name", METHODS)
def test_any_method_is_a_subgraph_of_its_conversation(name: str) -> None:
    if name in ("flare", "skr_knn", "uncertainty_gate"):
        pytest.skip("it needs log-probabilities, or labelled questions")
    talk = chat(name, model="extractive?similarity=lexical")
    assert list(dict(talk.get_subgraphs())) == [name]
    out = talk.invoke(ASKED)
    assert out["messages"][-1].text == out["answer"]
    assert out["status"] == ("unknown" if name in ("direct", "cot") else "answered")


def test_a_run_sets_the_methods_options() -> None:
    out = chat(k=2).invoke(ASKED, context={"samples": 2})
    assert out["usage"]["calls"] == 2


class AgentState(TypedDict):
    """An agent's state, with keys that a conversation does not know."""

    messages: Annotated[list[Any], add_messages]
    files: dict[str, str]


def test_it_works_as_a_compiled_subagent() -> None:
    """As deepagents runs one: state with messages in, last message and other keys out."""
    subagent = {"name": "reader", "description": "Reads.", "runnable": chat()}
    runnable: Any = subagent["runnable"]

    def task(state: AgentState) -> Any:
        kept = {key: value for key, value in state.items() if key != "messages"}
        result = runnable.invoke({**kept, "messages": [HumanMessage(FIRST)]})
        text = result["messages"][-1].text.rstrip()
        update = {key: value for key, value in result.items() if key != "messages"}
        return Command(
            update={**update, "messages": [ToolMessage(text, tool_call_id="call", id="tool")]}
        )

    parent = StateGraph(AgentState)
    parent.add_node("task", task)
    parent.add_edge(START, "task")
    parent.add_edge("task", END)
    out = parent.compile().invoke({"messages": [("user", "Delegate.")], "files": {"a": "b"}})
    assert out["messages"][-1].text == "Ada Brenner"
    assert set(out) == {"messages", "files"}


def test_a_hand_off_reaches_the_users_question() -> None:
    call = {"name": "transfer_to_reader", "args": {}, "id": "1"}
    messages = [
        HumanMessage(FIRST),
        AIMessage("", tool_calls=[call]),
        ToolMessage("Transferred.", tool_call_id="1"),
    ]
    assert chat().invoke({"messages": messages})["answer"] == "Ada Brenner"


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"passages": ["Ada Brenner paid."]}, "'passages', and a conversation.*build_graph"),
        ({"answer_type": "yes_no"}, "'answer_type', and a conversation.*context="),
        ({"question": FIRST}, "'question', and a conversation.*last message of the user"),
        ({"mesages": []}, "'mesages', and a conversation takes messages alone$"),
    ],
)
async def test_a_key_that_a_turn_would_pass_over_is_refused(
    more: dict[str, Any], said: str
) -> None:
    given = {**ASKED, **more}
    with pytest.raises(UsageError, match=said):
        chat().invoke(given)
    with pytest.raises(UsageError, match=said):
        await chat().ainvoke(given)
    with pytest.raises(UsageError, match=said):
        list(chat().stream(given))
    with pytest.raises(UsageError, match=said):
        _ = [one async for one in chat().astream(given)]


def test_an_output_may_be_given_back_with_the_next_question() -> None:
    talk = chat()
    out = talk.invoke(ASKED)
    again = {**out, "messages": [*out["messages"], HumanMessage(FOLLOW_UP)]}
    assert talk.invoke(again)["answer"] == "1932"
    with pytest.raises(UsageError, match="'answer_type'"):
        talk.invoke({**again, "answer_type": "yes_no"})
    (*_, state) = talk.stream(ASKED, stream_mode="values")
    again = {**state, "messages": [*state["messages"], HumanMessage(FOLLOW_UP)]}
    assert talk.invoke(again)["answer"] == "1932"


def test_the_answer_type_of_a_turn_is_an_option() -> None:
    talk = chat(model=ScriptedChat(replies=["Yes, it was."]))
    assert talk.invoke(ASKED, context={"answer_type": "yes_no"})["answer"] == "Yes"


def test_mistakes_are_refused() -> None:
    for tokens in (0, 3):
        with pytest.raises(UsageError, match="history_tokens"):
            chat(history_tokens=tokens)
    with pytest.raises(UsageError, match="unknown prompt 'nonsense'"):
        chat(prompts={"nonsense": "x"})
    with pytest.raises(UsageError, match="no question"):
        asyncio.run(chat().ainvoke({"messages": []}))


def test_the_prompt_can_be_replaced() -> None:
    model = ScriptedChat(replies=said)
    talk = chat(model=model, prompts={"restate": "{history} >> {question}"})
    talk.invoke({"messages": [("user", FIRST), ("ai", "Ada"), ("user", FOLLOW_UP)]})
    assert model.seen[0].text == f"User: {FIRST}\nAssistant: Ada >> {FOLLOW_UP}"


FOLLOWED: Any = {"messages": [("user", FIRST), ("ai", "Ada Brenner"), ("user", FOLLOW_UP)]}


@pytest.mark.parametrize("kind", [ScriptedChat, SyncScriptedChat])
async def test_the_time_limit_ends_a_restating_that_hangs(kind: type[SyncScriptedChat]) -> None:
    talk = chat(restater=kind(replies=[RESTATED], delay=5.0), timeout=0.05)
    with pytest.raises(RunTimeoutError):
        await talk.ainvoke(FOLLOWED)
    if kind is SyncScriptedChat:
        with pytest.raises(RunTimeoutError):
            talk.invoke(FOLLOWED)


@pytest.mark.parametrize("where", ["build", "context"])
def test_the_method_ends_by_the_time_limit_of_its_turn(where: str) -> None:
    limit = {"timeout": 60.0}
    talk, context = (chat(**limit), None) if where == "build" else (chat(), limit)
    stream = talk.stream(FOLLOWED, context=context, stream_mode="tasks", subgraphs=True)
    made = {task["name"]: task["result"] for _, task in stream if "result" in task}
    assert made["begin"]["deadline"] == made["turn"]["deadline"]


def test_a_limited_turn_streams_its_answer_and_keeps_no_deadline() -> None:
    talk = chat(timeout=60.0, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    shown = [chunk.text for chunk, _ in talk.stream(FOLLOWED, config, stream_mode="messages")]
    assert "".join(shown) == "1932"
    assert "deadline" not in talk.get_state(config).values


@pytest.mark.parametrize("slow", ["model", "restater"])
async def test_a_resumed_turn_has_a_time_limit(slow: str) -> None:
    models = {slow: ScriptedChat(replies=said, delay=5.0)}
    others: Any = {"restater": ScriptedChat(replies=said), **models}
    talk = chat(**others, timeout=0.1, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    for given in (FOLLOWED, None):
        with pytest.raises(RunTimeoutError):
            await talk.ainvoke(given, config)


@pytest.mark.parametrize(("attempts", "calls"), [(1, 1), (4, 4)])
def test_the_retry_policy_holds_for_restating(attempts: int, calls: int) -> None:
    restater = ScriptedChat(replies=[ValueError("down")])
    policy = RetryPolicy(max_attempts=attempts, initial_interval=0.0, retry_on=ValueError)
    with pytest.raises(ValueError, match="down"):
        chat(restater=restater, retry_policy=policy).invoke(FOLLOWED)
    assert len(restater.seen) == calls


def test_a_trained_generator_takes_follow_ups_as_they_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    part = PartChat(str(finish(tmp_path / "generator", "generator", "seq2seq")))
    talk = chat(restater=part, checkpointer=InMemorySaver())
    assert "cannot restate follow-ups" in caplog.text
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    assert talk.invoke({"messages": [("user", FOLLOW_UP)]}, config)["question"] == FOLLOW_UP
    notes = talk.get_state(config).values["notes"]
    assert [note["event"] for note in notes] == ["restate_unable"]
    able = ScriptedChat()
    assert restater_of(part, able) is able
    assert restater_of(part, None) is part
    assert restater_of(able, part) is able
    assert restater_of(able, ScriptedChat()) is able


NOTHING_NEW: list[list[Any]] = [
    [],
    [("user", FIRST), ("ai", "Ada Brenner")],
    [("ai", "Ada Brenner")],
    [("system", "Be brief.")],
]


@pytest.mark.parametrize("messages", NOTHING_NEW)
async def test_a_threads_last_question_is_not_asked_again(messages: list[Any]) -> None:
    talk = chat(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    with pytest.raises(UsageError, match="not asked again"):
        talk.invoke({"messages": messages}, config)
    with pytest.raises(UsageError, match="not asked again"):
        await talk.ainvoke({"messages": messages}, config)
    assert len(talk.get_state(config).values["messages"]) == 2


def test_an_answer_that_is_taken_back_is_given_anew() -> None:
    model = ScriptedChat(replies=["Ada Brenner", "Ada"])
    talk = chat(model=model, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    first = talk.invoke(ASKED, config)["messages"][-1]
    again = talk.invoke({"messages": [RemoveMessage(first.id)]}, config)
    assert [one.text for one in again["messages"]] == [FIRST, "Ada"]


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_an_edited_question_is_answered_anew(how: str) -> None:
    model = ScriptedChat(replies=said)
    talk = chat(model=model, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    *_, asked, _ = talk.invoke({"messages": [("user", "And where?")]}, config)["messages"]
    given = {"messages": [HumanMessage(FOLLOW_UP, id=asked.id)]}
    out = talk.invoke(given, config) if how == "sync" else await talk.ainvoke(given, config)
    assert [one.text for one in out["messages"]] == [FIRST, "Ada Brenner", FOLLOW_UP, "1932"]
    restating = [one.text for one in model.seen if one.task["task"] == "restate"][-1]
    assert f"User: {FIRST}\nAssistant: Ada Brenner\nLast question: {FOLLOW_UP}" in restating
    with pytest.raises(UsageError, match="not asked again"):
        talk.invoke(given, config)
    assert [one.text for one in talk.get_state(config).values["messages"]][-2:] == [
        FOLLOW_UP,
        "1932",
    ]


def test_an_edited_first_question_has_no_history_and_streams_its_answer_alone() -> None:
    model = ScriptedChat(replies=said)
    talk = chat(model=model, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    asked, _ = talk.invoke(ASKED, config)["messages"]
    given = {"messages": [HumanMessage(RESTATED, id=asked.id)]}
    parts = [one.text for one, _ in talk.stream(given, config, stream_mode="messages")]
    assert "".join(parts) == "1932"
    assert all(one.task["task"] == "answer" for one in model.seen)


def test_messages_behind_a_removal_are_held_to_the_same() -> None:
    talk = chat(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    first = talk.invoke(ASKED, config)["messages"][-1]
    with pytest.raises(UsageError, match="not asked again"):
        talk.invoke({"messages": [RemoveMessage(first.id), AIMessage("Ada")]}, config)


async def test_taking_back_an_exchange_asks_nothing() -> None:
    model = ScriptedChat(replies=said)
    talk = chat(model=model, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    *_, asked, answer = talk.invoke({"messages": [("user", FOLLOW_UP)]}, config)["messages"]
    calls = len(model.seen)
    with pytest.raises(UsageError, match="not asked again"):
        talk.invoke({"messages": [RemoveMessage(asked.id), RemoveMessage(answer.id)]}, config)
    assert len(model.seen) == calls
    out = await talk.ainvoke({"messages": [("user", FOLLOW_UP)]}, config)
    assert [one.text for one in out["messages"]] == [FIRST, "Ada Brenner", FOLLOW_UP, "1932"]


def test_an_agents_words_may_stand_behind_the_question() -> None:
    outer = StateGraph(AgentState)
    outer.add_node("reader", chat())
    outer.add_edge(START, "reader")
    outer.add_edge("reader", END)
    out = outer.compile().invoke({"messages": [("user", FIRST), ("ai", "Let me look it up.")]})
    assert out["messages"][-1].text == "Ada Brenner"


def test_an_earlier_checkpoint_is_gone_on_from() -> None:
    talk = chat(model=ScriptedChat(replies=["Ada Brenner", "Ada"]), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config)
    before = next(one for one in talk.get_state_history(config) if one.next == ("turn",))
    assert talk.invoke(None, before.config)["answer"] == "Ada"


def test_a_call_of_this_conversation_by_an_agent_is_no_answer() -> None:
    call = {"name": "transfer", "args": {}, "id": "1", "type": "tool_call"}
    handed = [("user", FIRST), AIMessage("Let me ask.", tool_calls=[call])]
    out = chat().invoke({"messages": [*handed, ToolMessage("done", tool_call_id="1")]})
    assert out["answer"] == "Ada Brenner"


PICTURE: Any = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
FILE: Any = {"type": "file", "base64": "AA==", "mime_type": "application/pdf"}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ([{"type": "text", "text": FIRST}, PICTURE], "text alone, not 'image_url'"),
        ([FILE, {"type": "text", "text": FIRST}], "text alone, not 'file'"),
        ([PICTURE], "text alone"),
        (" \n", "the question is empty"),
        ([{"type": "text", "text": ""}], "the question is empty"),
        ([], "the question is empty"),
    ],
)
async def test_what_is_no_text_is_refused_before_it_enters_the_thread(
    content: Any, told: str
) -> None:
    talk = chat(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    given = {"messages": [("user", FIRST), ("ai", "Ada Brenner"), HumanMessage(content)]}
    with pytest.raises(UsageError, match=told):
        talk.invoke(given, config)
    with pytest.raises(UsageError, match=told):
        await talk.ainvoke(given, config)
    assert talk.get_state(config).values == {}


@pytest.mark.parametrize("other", [PICTURE, FILE])
def test_what_is_no_text_is_refused_within_another_graph(other: Any) -> None:
    outer = StateGraph(AgentState)
    outer.add_node("reader", chat())
    outer.add_edge(START, "reader")
    asked: Any = [{"type": "text", "text": FIRST}, other]
    with pytest.raises(UsageError, match="text alone"):
        outer.compile().invoke({"messages": [HumanMessage(asked)]})


def test_text_may_come_in_blocks_and_an_answer_with_its_reasoning() -> None:
    blocks: Any = [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Ada"}]
    asked: Any = ["And when ", {"type": "text", "text": "was it opened?"}]
    out = chat().invoke({"messages": [("user", FIRST), AIMessage(blocks), HumanMessage(asked)]})
    assert out["answer"] == "1932"


STUDIED = "Ada Brenner. She studied in Norhaven."


@pytest.mark.parametrize(
    ("edited", "quoted"),
    [
        ({"answer": "Karl Oster"}, []),
        ({"answer": STUDIED}, [TEXTS[1]]),
        ({"passages": documents("Of Alden nothing is known.")}, []),
        ({}, ["Ada Brenner built the bridge at Alden."]),
    ],
)
@pytest.mark.parametrize("cites", [True, False])
def test_an_answer_that_was_edited_is_cited_anew(
    edited: dict[str, Any], quoted: list[str], cites: bool
) -> None:
    talk = chat(checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "1"}}
    talk.invoke(ASKED, config, interrupt_before=["reply"])
    if edited:
        talk.update_state(config, edited)
    out = talk.invoke(None, config, context={"citations": cites})
    check_citations(out["answer"], out["passages"], out["citations"])
    quotes = [quote["text"] for one in out["citations"] for quote in one["quotes"]]
    (block,) = out["messages"][-1].content_blocks
    notes = [one for one in block.get("annotations", ()) if one["type"] == "citation"]
    assert [one["cited_text"] for one in notes] == quotes
    if cites:
        assert [one["text"] for one in out["citations"]] == [out["answer"]]
        assert bool(quotes) == bool(quoted)
        assert all(quote in " ".join(quoted) for quote in quotes)
    elif "Karl Oster" in edited.values() or "passages" in edited:
        assert quotes == []
