"""Replies held to a form: which calls carry a grammar, and for which models."""

from __future__ import annotations

import json
import logging
from typing import Any, ClassVar

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from pydantic import SecretStr
from tests.openai_server import HttpFault, OpenAIServer
from tests.scripted import OwnListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.nodes.gbnf import id_list, one_of
from ragweave.nodes.judge import VERDICTS
from ragweave.nodes.step_grammars import notes_form, react_form, rewrite_form, self_ask_form

FACTS = documents("Ada built the bridge in 1934.", "The river is wide.", "Rain fell.")
DRAFT = "Ada built it in 1934."
REWRITE = "<Claim> Ada built the bridge <Query> builder of the bridge"
SAID = {
    "topic": "bridges",
    "reason": "Ada built it. So the answer is Yes.",
    "recall": DRAFT,
    "rewrite": REWRITE,
    "judge": "<Known(False)>",
    "need": "Yes",
    "filter": "0",
    "extract": "Yes",
    "answer": "Yes",
}

FOUND = OwnListRetriever(documents=FACTS)


class Constrained(ScriptedChat):
    """A scripted model that says that it takes grammars."""

    offers_grammar: ClassVar[bool] = True


def said(seen: Seen) -> str:
    assert seen.task is not None
    return SAID[seen.task["task"]]


def grammars(model: ScriptedChat, method: str, **options: Any) -> list[tuple[str, str]]:
    """Run a method; return task and grammar of each call that carried one."""
    graph = build_graph(
        method, model=model, retriever=OwnListRetriever(documents=FACTS), k=3, **options
    )
    graph.invoke({"question": "Did Ada build the bridge?"})
    calls = ((one.task, one.settings.get("grammar")) for one in model.seen)
    return [(task["task"], form) for task, form in calls if task and form is not None]


IDS = id_list(["1", "2", "3"])
VERDICT = one_of(VERDICTS)
ANSWER = one_of(("Yes", "No", "Unknown"))
SELF_ASK = self_ask_form("short", first=True)


@pytest.mark.parametrize(
    ("method", "options", "forms"),
    [
        ("self_eval", {}, {("need", one_of(("Yes", "No")))}),
        ("slimplm", {}, {("judge", VERDICT), ("rewrite", rewrite_form().grammar)}),
        ("blendfilter", {}, {("filter", IDS)}),
        ("filco", {"filter": "llm"}, {("filter", IDS)}),
        ("chain_of_note", {}, {("reason", notes_form(3, "short").grammar)}),
        ("chain_of_note", {"answer_type": "long"}, set()),
        ("concat", {"answer_type": "yes_no"}, {("answer", ANSWER)}),
        ("cot", {"answer_type": "yes_no"}, set()),
        ("blendfilter", {"answer_type": "yes_no"}, {("filter", IDS), ("extract", ANSWER)}),
        ("concat", {}, set()),
    ],
)
def test_the_calls_that_need_a_form_carry_it(
    method: str, options: dict[str, Any], forms: set[tuple[str, str]]
) -> None:
    assert set(grammars(Constrained(replies=said), method, constrain=True, **options)) == forms


def said_in_steps(*steps: str) -> Constrained:
    """A model that says these steps and then answers."""
    left = list(steps)
    return Constrained(replies=lambda seen: left.pop(0) if left else "Yes")


def test_each_step_of_react_is_held_and_the_last_one_finishes() -> None:
    model = said_in_steps("Action 1: Search[bridge]", "Action 2: Search[river]", "Finish[Ada]")
    found = grammars(model, "react", max_steps=3)
    forms = [react_form(number, "short", last=number == 3).grammar for number in (1, 2, 3)]
    assert found == [("step", form) for form in forms]
    assert len(set(forms)) == 3


def test_each_step_of_self_ask_is_held_but_for_the_one_that_must_answer() -> None:
    model = said_in_steps("Yes.\nFollow up: Who?", "Ada.", "Follow up: When?", "1934.", "Ada")
    found = grammars(model, "self_ask", rounds=2)
    forms = [self_ask_form("short", first=first).grammar for first in (True, False)]
    assert found == [("step", form) for form in forms]


@pytest.mark.parametrize(
    ("method", "replies"),
    [
        ("react", ["Search[bridge]", "Finish[Ada built it.\nIt is old.]"]),
        ("self_ask", ["Yes.\nFollow up: Who?", "Ada.", "So the final answer is: Ada built it."]),
    ],
)
def test_a_step_that_may_finish_with_a_long_answer_is_neither_held_nor_cut(
    method: str, replies: list[str]
) -> None:
    model = said_in_steps(*replies)
    assert grammars(model, method, answer_type="long", reply_tokens=700) == []
    steps = [one.settings for one in model.seen if one.task and one.task["task"] == "step"]
    assert [one["max_tokens"] for one in steps] == [700, 700]
    model = said_in_steps("Search[bridge]", "Finish[Ada]")
    assert grammars(model, "react", reply_tokens=700)
    assert {one.settings["max_tokens"] for one in model.seen} == {
        react_form(number, "short", last=False).most for number in (1, 2)
    }


@pytest.mark.parametrize(("method", "free"), [("react", 128), ("self_ask", 128)])
def test_a_limit_lets_a_held_reply_end_by_its_form(method: str, free: int) -> None:
    replies = {"react": "Finish[Ada]", "self_ask": "Yes.\nFollow up: Who?"}
    held, loose = (kind(replies=[replies[method]]) for kind in (Constrained, ScriptedChat))
    for model in (held, loose):
        grammars(model, method)
    first = {"react": react_form(1, "short", last=False), "self_ask": SELF_ASK}[method]
    assert held.seen[0].settings["max_tokens"] == first.most > free
    assert loose.seen[0].settings["max_tokens"] == free
    again = Constrained(replies=[replies[method]])
    grammars(again, method, reply_tokens=40)
    assert again.seen[0].settings["max_tokens"] == 40


def test_the_rewriters_form_has_as_many_claims_as_were_asked_for() -> None:
    def forms(**options: int) -> set[str]:
        found = grammars(Constrained(replies=said), "slimplm", **options)
        return {form for task, form in found if task == "rewrite"}

    assert forms(max_claims=12, max_rewrites=1) == {rewrite_form(4, 12).grammar}
    assert forms(max_claims=500) == {rewrite_form(4, 32).grammar}
    assert "claim{0,12}" in rewrite_form(1, 12).grammar


def test_a_form_that_is_full_is_noted() -> None:
    claim = "<Claim(bridge {0} is long)> <Search(True)> <Query(bridge {0})> "
    record = "<Question(Who?)> <NeedSearch(True)> <Query(builder)> "

    def noted(model: type[ScriptedChat], claims: int) -> list[Any]:
        reply = f"<Questions> {record}</Questions>\n<Claims> "
        reply += "".join(map(claim.format, range(claims))) + "</Claims>"
        script = {**SAID, "rewrite": reply}
        chat = model(replies=lambda seen: script[seen.task["task"]])  # type: ignore[index]
        graph = build_graph("slimplm", model=chat, retriever=FOUND)
        *_, state = graph.stream({"question": "Did Ada build it?"}, stream_mode="values")
        return [one["detail"] for one in state["notes"] if one["event"] == "claims_cut"]

    assert noted(Constrained, 8) == [{"allowed": 8}]
    assert noted(Constrained, 7) == noted(ScriptedChat, 8) == []


def test_only_the_last_turn_of_the_knowledge_filter_names_ids() -> None:
    found = grammars(Constrained(replies=said), "blendfilter", constrain=True)
    assert found == [("filter", IDS)] * 3


@pytest.mark.parametrize("model", [Constrained, ScriptedChat])
def test_without_the_option_or_the_models_offer_nothing_changes(model: type[ScriptedChat]) -> None:
    constrain = "auto" if model is ScriptedChat else False
    for method in ("self_eval", "slimplm", "blendfilter"):
        assert grammars(model(replies=said), method, constrain=constrain) == []


def test_a_bound_model_offers_what_it_binds() -> None:
    model = Constrained(replies=said)
    graph = build_graph("self_eval", model=model.bind(seed=7), retriever=FOUND, constrain=True)
    graph.invoke({"question": "Who?"})
    settings = next(one.settings for one in model.seen if one.task and one.task["task"] == "need")
    assert settings == {"seed": 7, "grammar": one_of(("Yes", "No")), "max_tokens": 32}


def test_a_run_may_switch_it_on() -> None:
    model = Constrained(replies=said)
    graph = build_graph("self_eval", model=model, retriever=FOUND, constrain=False)
    graph.invoke({"question": "Who?"}, context={"constrain": True})
    assert "grammar" in model.seen[0].settings


def test_a_form_is_held_wherever_the_model_offers_it() -> None:
    forms = {("need", one_of(("Yes", "No")))}
    assert set(grammars(Constrained(replies=said), "self_eval")) == forms


def test_ids_are_those_of_the_sentences_that_are_shown() -> None:
    long = documents(*(f"Sentence {index} says {'much ' * 150}." for index in range(4)))
    model = Constrained(replies=said)
    graph = build_graph("filco", model=model, filter="llm", constrain=True, prompt_tokens=500)
    graph.invoke({"question": "What?", "passages": long})
    first = model.seen[0]
    assert 0 < len(first.passages) < 4
    assert first.settings["grammar"] == id_list(
        [str(number) for number in range(1, len(first.passages) + 1)]
    )


def test_a_prompt_of_ones_own_keeps_the_form() -> None:
    model = Constrained(replies=said)
    own = ChatPromptTemplate([("human", "Look {question} up? Yes or No.")])
    graph = build_graph(
        "self_eval", model=model, retriever=FOUND, constrain=True, prompts={"self_eval": own}
    )
    graph.invoke({"question": "Who?"})
    assert model.seen[0].messages[-1].text == HumanMessage("Look Who? up? Yes or No.").text
    assert model.seen[0].settings["grammar"] == one_of(("Yes", "No"))


def spoken(body: dict[str, Any]) -> str:
    """Reply as a server with structured output does: in the schema that the request names."""
    schema = body["response_format"]["json_schema"]["schema"]["properties"]["reply"]
    said = [1, 3] if schema["type"] == "array" else schema["enum"][0]
    return json.dumps({"reply": said})


def client(server: OpenAIServer) -> ChatOpenAI:
    return ChatOpenAI(model="m", base_url=server.base_url, api_key=SecretStr("none"), max_retries=0)


def ask_for_ids(model: ChatOpenAI, **options: Any) -> dict[str, Any]:
    """Filter three passages by the model's word, twice; return the last output."""
    graph = build_graph("filco", model=model, filter="llm", answer_type="yes_no", **options)
    out: dict[str, Any] = {}
    for question in ("Did Ada build the bridge?", "Is the river wide?"):
        out = graph.invoke({"question": question, "passages": FACTS})
    return out


@pytest.mark.loopback
def test_a_server_with_structured_output_is_tried_once_and_held_to_schemas() -> None:
    with OpenAIServer(spoken) as server:
        out = ask_for_ids(client(server))
    forms = [one.body["response_format"]["json_schema"] for one in server.requests]
    values = [form["schema"]["properties"]["reply"] for form in forms]
    ids = {"type": "array", "items": {"type": "integer", "enum": [1, 2, 3]}}
    choice = {"type": "string", "enum": ["Yes", "No", "Unknown"]}
    assert values[1:] == [ids, choice] * 2
    assert values[0]["enum"] == ["violet"]
    assert all(form["strict"] for form in forms)
    assert out["answer"] == "Yes"
    assert [doc.page_content for doc in out["passages"]] == [
        FACTS[0].page_content,
        FACTS[2].page_content,
    ]
    assert out["usage"]["calls"] == 2


@pytest.mark.loopback
@pytest.mark.parametrize("refusal", [HttpFault(400, message="response_format?"), "A colour: red."])
def test_a_server_without_it_is_asked_in_free_text_and_that_is_said_once(
    refusal: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def script(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return refusal
        return "1" if "ids" in body["messages"][-1]["content"] else "Yes"

    with OpenAIServer(script) as server:
        out = ask_for_ids(client(server))
    assert ["response_format" in one.body for one in server.requests] == [True] + [False] * 4
    assert out["answer"] == "Yes"
    warned = [one for one in caplog.records if one.levelno >= logging.WARNING]
    said = [one.getMessage() for one in warned if one.name == "ragweave.models"]
    assert len(said) == 1
    assert "JSON schema" in said[0]


@pytest.mark.loopback
def test_no_schema_is_asked_of_a_step_that_has_none() -> None:
    with OpenAIServer(["Action 1: Search[bridge]", "Action 2: Finish[Ada]"]) as server:
        graph = build_graph("react", model=client(server), retriever=FOUND)
        assert graph.invoke({"question": "Who built it?"})["answer"] == "Ada"
    assert all("response_format" not in one.body for one in server.requests)


@pytest.mark.loopback
def test_a_server_is_not_tried_where_nothing_is_to_be_held() -> None:
    with OpenAIServer(["0", "Yes"]) as server:
        ask_for_ids(client(server), constrain=False)
    assert all("response_format" not in one.body for one in server.requests)
    assert server.count == 4
