"""Models that think: the room that their thoughts get, and the settings that their servers refuse."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import AzureChatOpenAI, ChatOpenAI
from langgraph.graph import END, START, StateGraph
from pydantic import PrivateAttr, SecretStr
from tests.openai_server import OpenAIServer, Reply
from tests.scripted import ScriptedChat, documents

from ragweave import build_graph
from ragweave.nodes.ask import Ask, Prompt
from ragweave.nodes.options import Options
from ragweave.nodes.reply_form import SHORT_ANSWER_TOKENS, length_settings, was_cut
from ragweave.state import RAGState
from ragweave.tools.models import Models, chat_model
from ragweave.tools.models.specs import takes_temperature
from ragweave.tools.models.thinking import (
    THINKING_TOKENS,
    note_thinking,
    takes_stop,
    thinking_room,
)
from ragweave.tools.text.normalize import estimate_message_tokens
from ragweave.tools.text.reply import reply_text


class Claude(ScriptedChat):
    """Has a table that says how long it may think."""

    thinking: dict[str, Any] | None = None
    max_tokens: int = 1024


class BaseChatOpenAI(ScriptedChat):
    """Taken for langchain-openai's; records the stop sequences that it is given."""

    model_name: str = "gpt-4o"
    use_responses_api: bool | None = None
    _stops: list[Any] = PrivateAttr(default_factory=list)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> Any:  # fmt: skip
        self._stops.append(stop)
        return super()._generate(messages, stop, run_manager, **kwargs)


def azure(deployment: str, **settings: Any) -> AzureChatOpenAI:
    return AzureChatOpenAI(
        azure_endpoint="https://corp.openai.azure.com",
        azure_deployment=deployment,
        api_key=SecretStr("k"),
        api_version="2025-03-01-preview",
        **settings,
    )


def served(settings: str) -> Any:
    return chat_model(f"openai:m?base_url=http://localhost:1/v1{settings}")


ENABLED = {"type": "enabled", "budget_tokens": 8000}
NOT_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
BODY = {"chat_template_kwargs": {"enable_thinking": True}}


@pytest.mark.parametrize(
    ("model", "room"),
    [
        (served(""), 0),
        (served("&thinking=off"), 0),
        (served("&thinking=on"), THINKING_TOKENS),
        (served("").bind(extra_body=BODY), THINKING_TOKENS),
        (served("&reasoning_effort=low"), THINKING_TOKENS),
        (Claude(), 0),
        (Claude(thinking={"type": "disabled"}), 0),
        (Claude(thinking={"type": "adaptive"}), THINKING_TOKENS),
        (Claude(thinking=ENABLED), 8000),
        (Claude().bind(thinking=ENABLED), 8000),
        (azure("gpt-4o"), 0),
        (azure("o3-mini"), THINKING_TOKENS),
        (BaseChatOpenAI(model_name="openai/gpt-5"), THINKING_TOKENS),
        (BaseChatOpenAI(model_name="gpt-5.1").bind(reasoning_effort="none"), 0),
        (BaseChatOpenAI(model_name="gpt-5.1").bind(reasoning={"effort": "none"}), 0),
        (BaseChatOpenAI(model_name="gpt-5.1").bind(reasoning={"effort": "low"}), THINKING_TOKENS),
        (BaseChatOpenAI(model_name="qwq-32b").bind(extra_body=NOT_THINKING), 0),
    ],
)
def test_the_room_that_thoughts_need(model: Any, room: int) -> None:
    assert thinking_room(model) == room
    limit = length_settings(model, 64, {}, Options())
    assert set(limit.values()) == {64 + room}


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        (Claude(), True),
        (Claude(thinking={"type": "disabled"}), True),
        (Claude(thinking={"type": "adaptive"}), False),
        (Claude().bind(thinking=ENABLED), False),
        (azure("gpt-4o"), True),
        (azure("o3-mini"), False),
        (BaseChatOpenAI(model_name="openai/gpt-5"), False),
        (BaseChatOpenAI(model_name="openai/gpt-5-chat"), True),
        (BaseChatOpenAI(model_name="openai/gpt-4o"), True),
    ],
)
def test_what_takes_a_temperature(model: Any, taken: bool) -> None:
    assert takes_temperature(model) is taken


def test_a_model_behind_a_proxy_is_known_by_the_end_of_its_name() -> None:
    url = "base_url=http://localhost:1/v1"
    told: Any = chat_model(f"openai:openai/gpt-5.1?{url}&reasoning_effort=none")
    assert told.temperature == 0
    reasoning: Any = chat_model(f"openai:openai/o3?{url}")
    assert reasoning.temperature is None


def test_azures_client_is_told_a_limit_by_the_name_that_its_server_takes() -> None:
    model = azure("o3-mini", max_tokens=4096)
    limit = length_settings(model, 64, {}, Options())
    assert limit == {"max_completion_tokens": 64 + THINKING_TOKENS}
    sent = model._get_request_payload([("human", "Who?")], **limit)
    assert sent["max_completion_tokens"] == 64 + THINKING_TOKENS
    assert "max_tokens" not in sent


def test_a_claude_that_thinks_gets_its_budget_and_no_temperature() -> None:
    model = Claude(thinking=ENABLED, replies=["Ada"])
    graph = build_graph("concat", model=model, profile="paper", top_p=None)
    graph.invoke({"question": "Who?", "passages": ["Ada built it."]})
    assert model.seen[0].settings == {"max_tokens": SHORT_ANSWER_TOKENS + 8000}


# -- thoughts that nothing had told of -----------------------------------------------------------


@pytest.mark.loopback
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_first_questions_asked_at_once_are_not_lost_to_thoughts(mode: str) -> None:
    def script(body: dict[str, Any]) -> Reply:
        if body["max_tokens"] < 1000:
            return Reply("", usage=(10, 64), delay=0.2, finish_reason="length")
        return Reply("Paris", usage=(10, 300))

    passages = documents("It is in Paris.", "Paris has it.", "In Paris.", "Go to Paris.")
    given: Any = {"question": "Where is the Louvre?", "passages": passages}
    with OpenAIServer(script) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}")
        graph = build_graph("post_fusion", model=model, constrain=False)
        out = asyncio.run(graph.ainvoke(given)) if mode == "async" else graph.invoke(given)
        asked = server.count
    assert out["answer"] == "Paris"
    assert asked > len(passages)
    usage = out["usage"]
    short = asked - len(passages)
    spent = {"calls": asked, "input_tokens": 10 * asked, "output_tokens": 64 * short + 300 * 4}
    assert {name: usage[name] for name in spent} == spent


@pytest.mark.parametrize(
    ("message", "thinks"),
    [
        (AIMessage("Ada was", additional_kwargs={"reasoning_content": "Hm."}), True),
        (AIMessage("<think>Who?</think>Ada was"), True),
        (AIMessage([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "A"}]), True),
        (
            AIMessage(
                "Ada was",
                usage_metadata={
                    "input_tokens": 9,
                    "output_tokens": 64,
                    "total_tokens": 73,
                    "output_token_details": {"reasoning": 60},
                },
            ),
            True,
        ),
        (AIMessage("Ada was"), False),
        (AIMessage(""), True),
    ],
)
def test_a_cut_reply_with_thoughts_shows_that_a_model_thinks(
    message: AIMessage, thinks: bool
) -> None:
    model = ScriptedChat()
    assert not was_cut(model, message, reply_text(message))
    assert thinking_room(model) == 0
    message.response_metadata = {"finish_reason": "length"}
    assert was_cut(model, message, reply_text(message))
    assert thinking_room(model) == (THINKING_TOKENS if thinks else 0)


def test_a_reply_cut_again_is_not_asked_for_a_third_time() -> None:
    class Cut(ScriptedChat):
        def _result(self, said: Any) -> Any:
            result = super()._result(said)
            result.generations[0].message.response_metadata = {"finish_reason": "length"}
            return result

    model = Cut(replies=[""])
    graph = build_graph("direct", model=model, ask_again=False)
    out = graph.invoke({"question": "Who?"})
    assert (out["answer"], len(model.seen)) == ("Unknown", 2)


@pytest.mark.parametrize(
    ("context", "sent"),
    [(None, 64 + THINKING_TOKENS), (32_768, 64 + THINKING_TOKENS), (2048, None)],
)
def test_thoughts_get_no_more_room_than_the_context_has(
    context: int | None, sent: int | None
) -> None:
    profile: Any = None if context is None else {"max_input_tokens": context}
    model = Claude(thinking={"type": "adaptive"}, replies=["Ada"], profile=profile)
    passages = documents(*("Ada built it. " * 40 for _ in range(9)))
    build_graph("concat", model=model).invoke({"question": "Who?", "passages": passages})
    limit = model.seen[0].settings["max_tokens"]
    if sent is not None:
        assert limit == sent
        return
    prompt = estimate_message_tokens(model.seen[0].messages)
    assert context is not None
    assert 2 * SHORT_ANSWER_TOKENS < limit <= context - prompt


def test_a_reply_has_its_own_room_where_none_is_left_for_thoughts() -> None:
    thinks = Claude(thinking={"type": "adaptive"})
    for left, limit in ((9000, 64 + THINKING_TOKENS), (100, 100), (64, 64), (-5, 64)):
        assert length_settings(thinks, 64, {}, Options(), left) == {"max_tokens": limit}


# -- stop sequences ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"model_name": "gpt-4o"}, True),
        ({"model_name": "gpt-5-chat-latest"}, True),
        ({"model_name": "gpt-4o", "use_responses_api": True}, False),
        ({"model_name": "gpt-5-mini"}, False),
        ({"model_name": "openai/o4-mini"}, False),
    ],
)
def test_stop_sequences_are_ours_to_keep_where_the_server_takes_none(
    settings: dict[str, Any], sent: bool
) -> None:
    model = BaseChatOpenAI(replies=["Search[Ada]\nObservation 1: Made up.\nEND"], **settings)
    stops = ["\nEND", "\nObservation"]
    prompt = Prompt(
        ChatPromptTemplate([("human", "Who?")]),
        {"task": "step", "question": "Who?"},
        settings={"stop": stops},
    )
    said: list[str] = []

    def update(_state: Any, reply: Any, _context: Any) -> Any:
        said.append(reply.text)
        return {}

    asked: Ask[Any, Options] = Ask(
        name="step", role="answer", prompt=lambda _state, _options: prompt, update=update
    )
    graph: StateGraph[Any, Any, Any, Any] = StateGraph(RAGState)
    graph.add_node("step", asked.step(Models(answer=model), Options()))
    graph.add_edge(START, "step")
    graph.add_edge("step", END)
    graph.compile().invoke({"question": "Who?"})
    assert takes_stop(model) is sent
    assert model._stops == [stops if sent else None]
    assert said == ["Search[Ada]\nObservation 1: Made up.\nEND" if sent else "Search[Ada]"]


@pytest.mark.parametrize(
    ("settings", "bound", "taken"),
    [
        ({}, {}, True),
        ({}, {"reasoning": {"effort": "low"}}, False),
        ({"model_kwargs": {"text": {"verbosity": "low"}}}, {}, False),
        ({"reasoning": {"effort": "none"}}, {}, False),
        ({"output_version": "responses/v1"}, {}, False),
        ({"use_responses_api": False}, {"include": ["reasoning.encrypted_content"]}, True),
    ],
)
def test_the_client_decides_by_which_api_it_asks(
    settings: dict[str, Any], bound: dict[str, Any], taken: bool
) -> None:
    model = ChatOpenAI(model="gpt-4o", api_key=SecretStr("k"), **settings)
    assert takes_stop(model.bind(**bound)) is taken
    sent = model._get_request_payload("Who?", stop=["END"], **bound)
    assert ("stop" in sent) is taken


def test_what_writes_nothing_before_its_reply_needs_no_room_for_thoughts():
    extractive = chat_model("extractive")
    note_thinking(extractive)
    assert thinking_room(extractive) == 0
    other = ScriptedChat(replies=[])
    note_thinking(other)
    assert thinking_room(other) == THINKING_TOKENS
