"""The model step: forms, settings, limits, notes, and what real servers refuse."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.exceptions import ModelAPIError, ModelAuthenticationError
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatResult
from langchain_core.vectorstores import InMemoryVectorStore
from langgraph.checkpoint.memory import InMemorySaver
from tests.openai_server import HttpFault, OpenAIServer, Reply, Stream

from ragweave import build_graph, chat_model
from ragweave.errors import BrokenReplyError, PromptTooLongError, UsageError
from ragweave.graphs import method
from ragweave.graphs.slimplm import Rewrite
from ragweave.nodes.ask import model_node
from ragweave.nodes.forms import Ids
from ragweave.nodes.prompts import Prompt
from ragweave.testing import CARDS, ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.models.calls import with_form
from ragweave.tools.models.messages import text_of

ASK = {"question": "Who built the bridge at Alden?"}
FILLED: dict[str, Any] = {
    "Grade": {"grade": "Correct"},
    "Ids": {"ids": [1]},
    "Notes": {"notes": [], "answer": "Ada Brenner"},
}


def few(count: int = 1) -> RecordingRetriever:
    return RecordingRetriever(documents=list(CARDS[:count]))


def fill(call: ModelCall) -> str:
    return json.dumps(FILLED[call.form]) if call.form else "Ada Brenner"


def served(body: dict[str, Any]) -> str:
    form = body.get("response_format")
    return json.dumps(FILLED[form["json_schema"]["name"]]) if form else "Ada Brenner"


def events(model: Any, method: str = "concat", retriever: Any = None, **options: Any) -> list[str]:
    """Return the events that a run noted."""
    graph = build_graph(method, model=model, retriever=retriever or few(5), checkpointer=InMemorySaver(), **options)
    thread: Any = {"configurable": {"thread_id": "1"}}
    graph.invoke(ASK, thread)
    return [note["event"] for note in graph.get_state(thread).values["notes"]]


# -- forms -------------------------------------------------------------------------------------


def test_replies_are_held_to_their_form_if_the_model_can_be() -> None:
    model = ScriptedModel(script=fill, profile={"structured_output": True})
    output = build_graph("crag", model=model, retriever=few(2)).invoke(ASK)
    assert [call.form for call in model.calls] == ["Grade", "Grade", "Ids", ""]
    assert output["usage"]["calls"] == 4
    free = ScriptedModel(script=["Correct", "1", "Ada Brenner"], profile={"structured_output": True})
    build_graph("crag", model=free, retriever=few(), constrain=False).invoke(ASK)
    assert [call.form for call in free.calls] == ["", "", ""]


def test_a_model_without_a_profile_is_held_if_its_class_can_be() -> None:
    model = ScriptedModel(script=fill, profile=None)
    build_graph("crag", model=model, retriever=few()).invoke(ASK)
    assert [call.form for call in model.calls] == ["Grade", "Ids", ""]


@pytest.mark.loopback
def test_a_server_that_refuses_limits_of_length_is_remembered() -> None:
    assert '"default"' not in json.dumps(Rewrite.model_json_schema())

    def strict(body: dict[str, Any]) -> Any:
        refused = "maxLength" in json.dumps(body.get("response_format"))
        return HttpFault(400, message="'maxLength' is not permitted") if refused else served(body)

    with OpenAIServer(strict) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}")
        for _ in range(2):
            build_graph("chain_of_note", model=model, retriever=few()).invoke(ASK)
        sent = [json.dumps(request.body) for request in server.requests]
    assert sum("maxLength" in body for body in sent) == 1
    assert sum("response_format" in body for body in sent) == 3


@pytest.mark.loopback
def test_a_server_that_refuses_every_form_is_asked_for_text() -> None:
    def refuses(body: dict[str, Any]) -> Any:
        return HttpFault(400, message="unsupported") if "response_format" in body else "Correct"

    with OpenAIServer(refuses) as server:
        graph = build_graph("crag", model=chat_model(f"openai:m?base_url={server.base_url}"), retriever=few())
        first, second = asyncio.run(graph.ainvoke(ASK)), graph.invoke(ASK)
        forms = sum("response_format" in request.body for request in server.requests)
    assert first["answer"] == second["answer"] == "Correct"
    assert forms == 1


@pytest.mark.loopback
@pytest.mark.parametrize("reply", [('{"grade": "Cor', "length"), ("", "content_filter"), ("Correct", "stop")])
def test_a_reply_that_the_client_cannot_parse_is_asked_for_freely(reply: tuple[str, str]) -> None:
    def says(body: dict[str, Any]) -> Any:
        return Reply(reply[0], finish_reason=reply[1]) if "response_format" in body else served(body)

    with OpenAIServer(says) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}")
        output = build_graph("crag", model=model, retriever=few()).invoke(ASK)
        constrained = ["response_format" in request.body for request in server.requests]
    assert output["answer"] == "Ada Brenner"
    assert constrained[:2] == [True, False]
    assert (sum(constrained) == 1) == (reply[1] == "stop"), "a server that ignores forms is asked for none again"


def test_ids_are_picked_once_and_in_order() -> None:
    passages = [Document(text) for text in "abc"]
    assert Ids(ids=[3, 1, 3, 0, 9]).pick(passages) == [passages[0], passages[2]]


# -- settings ----------------------------------------------------------------------------------


@pytest.mark.loopback
def test_nothing_is_sent_that_nobody_asked_for() -> None:
    with OpenAIServer(["Ada Brenner"]) as server:
        build_graph("concat", model=chat_model(f"openai:m?base_url={server.base_url}"), retriever=few()).invoke(ASK)
        assert not {"temperature", "top_p", "seed", "stop"} & server.requests[0].body.keys()


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("temperature", "`temperature` is deprecated for this model."),
        ("temperature", "invalid temperature: only 1 is allowed for this model"),
        ("max_tokens", "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        ("stop", "Unsupported parameter: 'stop' is not supported with this model."),
    ],
)
def test_a_setting_that_a_server_refuses_is_left_out_from_then_on(setting: str, message: str) -> None:
    def refuses(body: dict[str, Any]) -> Any:
        return HttpFault(400, message=message) if setting in body else "Action 1: Finish[Ada Brenner]"

    with OpenAIServer(refuses) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}")
        method, options = ("react", {"constrain": False}) if setting == "stop" else ("concat", {"samples": 3})
        noted = events(model, method, **options)
        refused = sum(setting in request.body for request in server.requests)
        build_graph(method, model=model, retriever=few(), **options).invoke(ASK)
        assert sum(setting in request.body for request in server.requests) == refused
    assert noted.count("setting_refused") == refused


def test_reasoning_models_get_no_setting_that_they_refuse() -> None:
    profile = {"temperature": False, "reasoning_output": True, "structured_output": False}
    model = ScriptedModel(script=["Action 1: Finish[Ada Brenner]"], profile=profile)
    build_graph("concat", model=model, retriever=few(), samples=2).invoke(ASK)
    build_graph("react", model=model, retriever=few()).invoke(ASK)
    never_concludes = model.model_copy(update={"script": ["It stands at Alden. Who built it is in a book."]})
    build_graph("cot", model=never_concludes).invoke(ASK)
    assert "final answer alone" in model.calls[-1].last
    assert not {"temperature", "stop", "max_tokens"} & {name for call in model.calls for name in call.settings}


def test_each_sample_draws_by_a_seed_of_its_own() -> None:
    model = ScriptedModel(script=["Ada Brenner"], seed=7)
    build_graph("concat", model=model, retriever=few(), samples=3).invoke(ASK)
    assert sorted(call.settings["seed"] for call in model.calls) == [7, 8, 9]
    assert {call.settings["temperature"] for call in model.calls} == {0.7}


def test_the_callers_limit_and_stops_hold_beside_the_steps() -> None:
    model = ScriptedModel(script=["Action 1: Finish[Ada]"], max_tokens=9).bind(stop=["END"])
    build_graph("react", model=model, retriever=few()).invoke(ASK)
    call = model.bound.calls[0]  # type: ignore[attr-defined]
    assert call.settings["max_tokens"] == 9
    assert call.settings["stop"] == ["END", "\nObservation"]


class Starts(BaseCallbackHandler):
    """Counts the calls that it is told of."""

    count = 0

    def on_chat_model_start(self, *_: Any, **__: Any) -> None:
        self.count += 1


def test_what_a_model_is_bound_to_holds_for_calls_with_a_form_too() -> None:
    model, starts = ScriptedModel(script=fill, profile={"structured_output": True}), Starts()
    bound = model.bind(temperature=0.1, service_tier="flex").with_config(callbacks=[starts])
    build_graph("crag", model=bound, retriever=few()).invoke(ASK)
    assert [call.form for call in model.calls] == ["Grade", "Ids", ""]
    assert {(call.settings["temperature"], call.settings["service_tier"]) for call in model.calls} == {(0.1, "flex")}
    assert starts.count == 3


@pytest.mark.loopback
@pytest.mark.parametrize("method", ["json_schema", "function_calling", "json_mode"])
def test_a_clients_own_chain_passes_on_what_it_is_bound_to(method: str) -> None:
    with OpenAIServer(['{"ids": [1]}']) as server:
        model: Any = chat_model(f"openai:m?base_url={server.base_url}").bind(extra_headers={"x-tenant": "acme"})
        vars(model.bound)["with_structured_output"] = partial(model.bound.with_structured_output, method=method)
        with_form(model, Ids).invoke("Which?")
    assert [request.headers["x-tenant"] for request in server.requests] == ["acme"]


def failing(_call: ModelCall) -> str:
    raise ConnectionError("connection refused")


WRAPPED: dict[str, Callable[[ScriptedModel], Any]] = {
    "retries": lambda model: model.with_retry(),
    "fallbacks": lambda model: model.with_fallbacks([ScriptedModel()]),
    "is the fallback": lambda model: ScriptedModel(script=failing, profile=model.profile, seed=7).with_fallbacks(
        [model]
    ),
    "retries, then fallbacks": lambda model: model.with_retry().with_fallbacks([ScriptedModel()]),
}


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
def test_a_model_with_retries_or_fallbacks_is_asked_as_any(wrapped: Callable[[ScriptedModel], Any]) -> None:
    model = ScriptedModel(script=fill, profile={"structured_output": True}, seed=7, max_tokens=9)
    build_graph("crag", model=wrapped(model), retriever=few()).invoke(ASK)
    build_graph("concat", model=wrapped(model), retriever=few(), samples=3).invoke(ASK)
    assert [call.form for call in model.calls] == ["Grade", "Ids", "", "", "", ""]
    assert sorted(call.settings["seed"] for call in model.calls[3:]) == [7, 8, 9]
    assert {call.settings["temperature"] for call in model.calls[3:]} == {0.7}
    assert {call.settings["max_tokens"] for call in model.calls} == {9}


# -- what fits, and what is noted --------------------------------------------------------------


def test_the_lowest_ranked_passages_are_dropped_until_the_prompt_fits() -> None:
    model = ScriptedModel(script=["Ada Brenner"])
    output = build_graph("concat", model=model, retriever=few(5), prompt_tokens=180).invoke(ASK)
    assert 0 < len(output["passages"]) < 5
    assert output["passages"][0].metadata["rank"] == 0
    assert "passages_dropped" in events(model, prompt_tokens=180)
    with pytest.raises(PromptTooLongError, match="shorten the question or raise prompt_tokens"):
        build_graph("direct", model=model, prompt_tokens=5).invoke(ASK)


@pytest.mark.parametrize(
    ("reply", "event"),
    [
        (AIMessage("", response_metadata={"finish_reason": "content_filter"}), "content_filtered"),
        (AIMessage("Ada Brenner built it. " * 500), "answer_long"),
    ],
)
def test_what_a_trace_should_tell_is_noted(reply: AIMessage, event: str) -> None:
    assert event in events(ScriptedModel(script=[reply]))
    assert event not in events(ScriptedModel(script=["Ada Brenner"]))


def test_a_quoted_passage_is_not_an_echo() -> None:
    assert "prompt_echoed" not in events(ScriptedModel(script=[CARDS[0].page_content]))


@pytest.mark.parametrize("name", ["concat", "cot", "flare", "research"])
def test_a_long_answer_reaches_the_output_uncut_and_with_its_code(name: str) -> None:
    code = "```python\nsecond = items[1]\n```"
    reply = f"Take this:\n{code}\n" + " ".join(f"Sentence {number} says something." for number in range(1000))
    model = ScriptedModel(script=lambda call: '{"questions": []}' if call.form else reply)
    out = build_graph(name, model=model, retriever=few(), citations=False).invoke({**ASK, "answer_type": "long"})
    assert reply in out["answer"]


def test_a_reply_that_cannot_be_read_is_noted() -> None:
    assert "reply_unreadable" in events(ScriptedModel(script=["hm"]), "crag")


def test_a_server_that_reads_only_a_part_of_the_prompt_is_noted(caplog: pytest.LogCaptureFixture) -> None:
    cut = AIMessage("Ada", usage_metadata={"input_tokens": 400, "output_tokens": 1, "total_tokens": 401})
    long = RecordingRetriever(documents=[Document("The bridge at Alden. " * 300, id="long")])
    assert "input_cut" in events(ScriptedModel(script=[cut]), retriever=long)
    assert "the server read 400 of about" in caplog.text


def test_a_reasoning_without_an_end_is_asked_for_the_answer_alone() -> None:
    script = ["The passage names a builder. She studied in Norhaven and wrote books.", "Ada Brenner"]
    model = ScriptedModel(script=script)
    assert build_graph("cot", model=model).invoke(ASK)["answer"] == "Ada Brenner"
    assert "final answer alone" in model.calls[1].last
    off = ScriptedModel(script=script)
    assert build_graph("cot", model=off, ask_again=False).invoke(ASK)["usage"]["calls"] == 1
    assert not any("final answer alone" in call.last for call in off.calls)


def test_too_little_context_is_rated_before_an_answer() -> None:
    def says(call: ModelCall) -> str:
        return "No" if "hold enough" in call.text else "Ada Brenner"

    model = ScriptedModel(script=says)
    output = build_graph("concat", model=model, retriever=few(), sufficient_context=True).invoke(ASK)
    assert (output["answer"], output["usage"]["calls"], len(output["passages"])) == ("Unknown", 1, 1)
    printed = ScriptedModel(script=['So it is enough.\n### EVALUATION\n{"Sufficient Context": 1}', "Ada Brenner"])
    graph = build_graph("concat", model=printed, retriever=few(), sufficient_context="printed")
    assert (graph.invoke(ASK)["answer"], len(printed.calls)) == ("Ada Brenner", 2)


# -- prompts that a server refuses as too long -------------------------------------------------


def counts(body: dict[str, Any]) -> int:
    return json.dumps(body["messages"]).count("<passage ")


@pytest.mark.loopback
@pytest.mark.parametrize("streaming", [False, True])
def test_the_lowest_passages_go_if_a_server_says_that_the_prompt_is_too_long(streaming: bool) -> None:
    def refuses(body: dict[str, Any]) -> Any:
        text = "'max_tokens' is too large: 64. This model's maximum context length is 512 tokens."
        return HttpFault(400, message=text) if counts(body) > 2 else "Ada Brenner"

    with OpenAIServer(refuses) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}&streaming={streaming}".lower())
        output = build_graph("concat", model=model, retriever=few(5)).invoke(ASK)
        noted = events(model)
        assert "max_tokens" in server.requests[-1].body
    assert 0 < len(output["passages"]) <= 2
    assert output["passages"][0].metadata["rank"] == 0
    assert "passages_dropped" in noted
    assert "setting_refused" not in noted


@pytest.mark.loopback
def test_a_prompt_that_is_too_long_without_passages_is_named() -> None:
    with OpenAIServer([HttpFault(400, message="prompt is too long: 9000 tokens > 8192 maximum")]) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}")
        for method in ("direct", "concat"):
            with pytest.raises(PromptTooLongError, match="9000 tokens > 8192"):
                build_graph(method, model=model, retriever=few()).invoke({"question": ASK["question"] * 50})
        assert server.count == 2
        long = RecordingRetriever(documents=[Document("The bridge at Alden. " * 300, id="long")])
        assert build_graph("concat", model=model, retriever=long).invoke(ASK)["status"] == "unknown"


@pytest.mark.loopback
def test_a_reply_limit_that_is_too_large_for_one_call_is_sent_again_with_the_next() -> None:
    def refuses(body: dict[str, Any]) -> Any:
        text = "max_tokens is too large: 64. This model supports at most 32 completion tokens here."
        return HttpFault(400, message=text) if "max_tokens" in body and "Alden" in str(body["messages"]) else "Ada"

    with OpenAIServer(refuses) as server:
        graph = build_graph("direct", model=chat_model(f"openai:m?base_url={server.base_url}"))
        graph.invoke(ASK)
        graph.invoke({"question": "Who built the lighthouse?"})
        assert ["max_tokens" in request.body for request in server.requests] == [True, False, True]


# -- replies that are broken off ---------------------------------------------------------------


def test_a_reply_that_its_provider_broke_off_is_asked_for_again() -> None:
    half = AIMessage("Ada Bren", response_metadata={"finish_reason": "error"})
    output = build_graph("concat", model=ScriptedModel(script=[half, "Ada Brenner"]), retriever=few()).invoke(ASK)
    assert (output["answer"], output["usage"]["calls"]) == ("Ada Brenner", 2)
    assert "reply_broken_off" in events(ScriptedModel(script=[half, "Ada Brenner"]))
    always = ScriptedModel(script=[half])
    output = build_graph("concat", model=always, retriever=few(), max_calls=1).invoke(ASK)
    assert (output["answer"], output["truncated"], output["usage"]["calls"]) == ("Unknown", True, 1)
    always = ScriptedModel(script=[half])
    with pytest.raises(BrokenReplyError, match="3 times: error"):
        build_graph("concat", model=always, retriever=few()).invoke(ASK)
    assert len(always.calls) == 3


HALF = ({"delta": {"role": "assistant", "content": "Ada "}}, {"delta": {"content": "Bren"}})
WHOLE = (*HALF, {"delta": {"content": "ner"}}, {"finish_reason": "stop"})


def streamed(server: OpenAIServer, *questions: str, fallback: OpenAIServer | None = None) -> list[Any]:
    """Return the states in which the questions end for one model, its replies streamed."""
    model = chat_model(f"openai:m?base_url={server.base_url}&max_retries=0")
    if fallback:
        model = model.with_fallbacks([chat_model(f"openai:other?base_url={fallback.base_url}")])
    graph = build_graph("concat", model=model)
    states = []
    for question in questions:
        given: Any = {"question": question, "passages": ["Ada Brenner built the bridge at Alden."]}
        for mode, state in graph.stream(given, stream_mode=["values", "messages"]):
            states += [state] if mode == "values" and "answer" in state and state.get("status") else []
    return states


def noted_by(state: Any) -> list[str]:
    return [note["event"] for note in state["notes"]]


@pytest.mark.loopback
def test_a_stream_that_is_cut_is_asked_for_again() -> None:
    with OpenAIServer([Stream(WHOLE), Stream(HALF), Stream(WHOLE)]) as server:
        states = streamed(server, "Who?", "Who built it?")
        assert (states[-1]["answer"], server.count) == ("Ada Brenner", 3)
        assert noted_by(states[-1]) == ["reply_broken_off"]
    with OpenAIServer([Stream(WHOLE), Stream(HALF)]) as server, pytest.raises(BrokenReplyError, match="ended without"):
        streamed(server, "Who?", "Who built it?")


@pytest.mark.loopback
def test_a_server_that_never_says_how_a_stream_ended_is_asked_once() -> None:
    with OpenAIServer([Stream(WHOLE[:-1])]) as server:
        states = streamed(server, "Who?", "Who built it?")
        assert (states[-1]["answer"], server.count) == ("Ada Brenner", 2)
        assert noted_by(states[-1]) == ["ending_unknown"]


@pytest.mark.loopback
def test_each_fallback_says_how_a_stream_ended_or_does_not() -> None:
    with OpenAIServer([Stream(WHOLE), HttpFault(401)]) as server, OpenAIServer([Stream(WHOLE[:-1])]) as fallback:
        states = streamed(server, "Who?", "Who built it?", fallback=fallback)
        assert (states[-1]["answer"], fallback.count) == ("Ada Brenner", 1)


@pytest.mark.loopback
def test_an_empty_stream_is_asked_for_again() -> None:
    with OpenAIServer([Stream(()), Stream(WHOLE)]) as server:
        assert streamed(server, "Who?")[-1]["answer"] == "Ada Brenner"
    with OpenAIServer([Stream(())]) as server, pytest.raises(BrokenReplyError, match="the stream was empty"):
        streamed(server, "Who?")


@pytest.mark.loopback
def test_a_streamed_refusal_is_filtered() -> None:
    refusal = (
        {"delta": {"role": "assistant", "refusal": "I "}},
        {"delta": {"refusal": "can't."}},
        {"finish_reason": "stop"},
    )
    with OpenAIServer([Stream(refusal)]) as server:
        assert "content_filtered" in noted_by(streamed(server, "Who?")[-1])


@pytest.mark.loopback
def test_usage_on_each_chunk_counts_once() -> None:
    counts = [{"prompt_tokens": 100, "completion_tokens": n, "total_tokens": 100 + n} for n in range(4)]
    with OpenAIServer(
        [Stream([{**chunk, "usage": usage} for chunk, usage in zip(WHOLE, counts, strict=True)])]
    ) as server:
        usage = streamed(server, "Who?")[-1]["usage"]
    assert (usage["input_tokens"], usage["output_tokens"], usage["estimated"]) == (100, 3, False)


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.loopback
@pytest.mark.parametrize("retries", [0, 2])
def test_a_pause_that_a_server_asks_for_is_kept_between_tries(retries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    faults = [HttpFault(429, retry_after=20)] * (1 + retries)
    with OpenAIServer([*faults, "Ada Brenner"]) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}&max_retries={retries}")
        output = build_graph("concat", model=model, retriever=few()).invoke(ASK)
        assert (output["answer"], server.count) == ("Ada Brenner", 2 + retries)
    assert sum(19 < seconds <= 20 for seconds in slept) == 1 + retries


@pytest.mark.loopback
@pytest.mark.parametrize(("retries", "calls"), [(0, 3), (2, 9)])
def test_the_clients_own_tries_multiply_those_of_the_node(
    retries: int, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    with OpenAIServer([HttpFault(503)]) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}&max_retries={retries}")
        with pytest.raises(ModelAPIError):
            build_graph("concat", model=model, retriever=few()).invoke(ASK)
        assert server.count == calls


def test_the_connections_of_an_ended_event_loop_are_made_anew() -> None:
    faults = [RuntimeError("Event loop is closed")]

    def closed_once(_call: ModelCall) -> str:
        if faults:
            raise faults.pop()
        return "Ada Brenner"

    graph = build_graph("concat", model=ScriptedModel(script=closed_once), retriever=few())
    assert asyncio.run(graph.ainvoke(ASK))["answer"] == "Ada Brenner"


@pytest.mark.loopback
def test_a_wrong_key_is_tried_once() -> None:
    with OpenAIServer(["Ada"], key="right") as server:
        model = chat_model(f"openai:m?base_url={server.base_url}&api_key=wrong")
        with pytest.raises(ModelAuthenticationError, match="Incorrect API key"):
            build_graph("slimplm", model=model, retriever=few()).invoke(ASK)
        assert server.count == 1


def test_what_is_no_message_is_named() -> None:
    from langchain_core.output_parsers import StrOutputParser

    with pytest.raises(UsageError, match="leave out the output parser"):
        build_graph("concat", model=ScriptedModel(script=["Ada"]) | StrOutputParser(), retriever=few()).invoke(ASK)


def yields_no_prompt(_state: Any, _options: Any) -> Any:
    reply = yield "Who built it?"
    return {"answer": reply.text}


def returns_nothing(_state: Any, _options: Any) -> Any:
    yield Prompt("direct", {"instruction": "", "unknown": ""})


@pytest.mark.parametrize(
    ("asking", "error"), [(yields_no_prompt, "yielded a str, not a Prompt"), (returns_nothing, "returned a NoneType")]
)
def test_a_model_node_that_breaks_the_rules_is_named(asking: Any, error: str) -> None:
    @method("mine", paper="", when="", calls=lambda _options: (1, 1))
    def mine(graph: Any, components: Any) -> None:
        graph.add_node("ask", model_node("generator")(asking)(components))
        graph.add_edge("begin", "ask")

    with pytest.raises(UsageError, match=f"the node ask {error}"):
        build_graph(mine, model=ScriptedModel(script=["Ada Brenner"])).invoke(ASK)


def test_a_model_node_must_yield() -> None:
    with pytest.raises(UsageError, match="the model node <lambda> must yield its prompt"):
        model_node("generator")(lambda _state, _options: {"answer": "Ada Brenner"})  # type: ignore[arg-type, return-value]


# -- messages and retrievers -------------------------------------------------------------------


def test_a_message_says_its_text_blocks_alone() -> None:
    blocks = AIMessage(content=[{"type": "reasoning", "reasoning": "Karl"}, {"type": "text", "text": "Ada"}])
    assert text_of(blocks) == "Ada"
    assert text_of(AIMessage("", additional_kwargs={"reasoning_content": "Karl"})) == ""


class SyncModel(ScriptedModel):
    """Has synchronous calls alone; answers when as many as there are passages run at once."""

    barrier: Any

    def _generate(self, *args: Any, **settings: Any) -> ChatResult:
        self.barrier.wait(timeout=30)
        return super()._generate(*args, **settings)


async def test_branches_of_a_sync_model_run_at_once_under_asyncio() -> None:
    model = SyncModel(script=["Ada Brenner"], barrier=threading.Barrier(40))
    passages = [f"Passage {number}: Ada Brenner." for number in range(40)]
    output = await build_graph("post_fusion", model=model).ainvoke({**ASK, "passages": passages})
    assert (output["answer"], len(output["candidates"])) == ("Ada Brenner", 40)


def test_a_vector_store_finds_k_passages() -> None:
    store = InMemoryVectorStore.from_texts([f"Bridge {n}." for n in range(9)], DeterministicFakeEmbedding(size=4))
    model = ScriptedModel(script=["Ada"])
    assert len(build_graph("concat", model=model, retriever=store.as_retriever(), k=6).invoke(ASK)["passages"]) == 6
