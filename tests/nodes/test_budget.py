"""A run's budget: what ends when calls, tokens, dollars or seconds are spent, and what is answered then."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver

from ragweave import build_chat, build_graph
from ragweave.errors import RunTimeoutError, UsageError
from ragweave.graphs import MethodGraph
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel

ASK: dict[str, Any] = {"question": "Who built the bridge at Alden?"}
SPLIT = "1. Who built it?\n2. Which bridge is at Alden?"


def invoked(graph: MethodGraph) -> Any:
    return graph.invoke(ASK)


def awaited(graph: MethodGraph) -> Any:
    return asyncio.run(graph.ainvoke(ASK))


def streamed(graph: MethodGraph) -> Any:
    *_, state = graph.stream(ASK, stream_mode="values")
    return state


def batched(graph: MethodGraph) -> Any:
    outputs = graph.batch([ASK, ASK])
    assert outputs[0]["usage"]["calls"] == outputs[1]["usage"]["calls"]
    return outputs[0]


WAYS = pytest.mark.parametrize("ask", [invoked, awaited, streamed, batched])


def scripted(script: Any = lambda _call: "Ada Brenner") -> ScriptedModel:
    return ScriptedModel(script=script)


def build(method: str, model: Any, **options: Any) -> MethodGraph:
    return build_graph(method, model=model, retriever=RecordingRetriever(), **options)


def events(state: Any) -> list[tuple[str, str]]:
    return [(note["node"], note["detail"]["limit"]) for note in state["notes"] if note["event"] == "budget_spent"]


@WAYS
@pytest.mark.parametrize(
    ("method", "options", "calls", "answer"),
    [
        ("direct", {"max_calls": 1}, 1, "Ada Brenner"),
        ("concat", {"samples": 5, "max_calls": 2}, 2, "Ada Brenner"),
        ("iter_retgen", {"max_calls": 1}, 1, "So the answer is Ada Brenner."),
        ("decompose", {"solve": "in_turn", "max_calls": 2}, 2, "Unknown"),
        ("crag", {"max_calls": 3}, 3, "Unknown"),
        ("adaptive", {"max_calls": 3}, 3, "Unknown"),
        ("ircot", {"max_calls": 2}, 2, "Unknown"),
        ("research", {"max_calls": 2}, 2, "# Who built the bridge at Alden?\n\nAda Brenner"),
    ],
)
def test_calls(
    ask: Callable[[MethodGraph], Any], method: str, options: dict[str, Any], calls: int, answer: str
) -> None:
    def reply(call: ModelCall) -> str:
        if call.node == "plan":
            return '{"questions": ["Which river runs under it?"]}'
        return (
            SPLIT
            if call.node == "split"
            else "So the answer is Ada Brenner."
            if method == "iter_retgen"
            else "Ada Brenner"
        )

    output = ask(build(method, scripted(reply), **options))
    assert output["usage"]["calls"] == calls
    assert output["answer"].startswith(answer.removeprefix("So the answer is ").removesuffix("."))
    assert output["truncated"] is (method != "direct")


@WAYS
def test_tokens(ask: Callable[[MethodGraph], Any]) -> None:
    output = ask(build("iter_retgen", scripted(lambda _call: "So the answer is Ada Brenner."), max_total_tokens=10))
    assert (output["usage"]["calls"], output["answer"], output["truncated"]) == (1, "Ada Brenner", True)


class Priced(ScriptedModel):
    """A model that costs a tenth of a cent a token."""

    model_name: str = "scripted"


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "prices.json").write_text(json.dumps({"scripted": [1000, 1000]}), "utf-8")
    monkeypatch.setenv("RAGWEAVE_PRICES", str(tmp_path / "prices.json"))


@WAYS
@pytest.mark.usefixtures("prices")
def test_dollars(ask: Callable[[MethodGraph], Any]) -> None:
    graph = build("crag", Priced(script=lambda _call: "Ambiguous"), max_cost_usd=0.01, k=1)
    output = ask(graph)
    assert output["truncated"]
    assert output["usage"]["calls"] == 1


def test_dollars_need_a_price() -> None:
    with pytest.raises(UsageError, match="max_cost_usd needs the price of ScriptedModel"):
        build("concat", scripted(), max_cost_usd=1.0)
    with pytest.raises(UsageError, match="max_cost_usd needs the price of ScriptedModel"):
        build("concat", scripted()).invoke(ASK, context={"max_cost_usd": 1.0})
    assert build("concat", "extractive", max_cost_usd=1.0).invoke(ASK)["truncated"] is False


class Hanging(ScriptedModel):
    """Hangs after some replies."""

    replies: int = 0

    async def _agenerate(self, *arguments: Any, **settings: Any) -> Any:
        if len(self.calls) >= self.replies:
            await asyncio.sleep(30)
        return self._generate(*arguments, **settings)


def test_the_time_is_up_after_an_answer() -> None:
    model = Hanging(script=lambda _call: "So the answer is Ada Brenner.", replies=1)
    output = asyncio.run(build("iter_retgen", model, timeout=2).ainvoke(ASK))
    assert (output["answer"], output["truncated"]) == ("Ada Brenner", True)


def test_the_time_is_up_before_an_answer() -> None:
    graph = build("concat", Hanging(script=["Ada"]), timeout=0.2)
    with pytest.raises(RunTimeoutError, match=r"longer than 0.2 seconds \(timeout\)"):
        asyncio.run(graph.ainvoke(ASK))
    with pytest.raises(RunTimeoutError):
        graph.invoke(ASK, context={"timeout": 1e-9})


def test_a_search_that_hangs_is_cut() -> None:
    class HangingRetriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            raise NotImplementedError

        async def _aget_relevant_documents(self, *_: Any, **__: Any) -> Any:
            await asyncio.sleep(30)

    graph = build_graph("concat", model=scripted(), retriever=HangingRetriever(), timeout=0.2)
    with pytest.raises(RunTimeoutError):
        asyncio.run(graph.ainvoke(ASK))


def test_a_threads_second_question_has_a_budget_of_its_own() -> None:
    graph = build("concat", scripted(), max_calls=1, checkpointer=InMemorySaver())
    for _ in range(2):
        output = graph.invoke(ASK, {"configurable": {"thread_id": "t"}})
        assert (output["answer"], output["truncated"]) == ("Ada Brenner", False)


def test_the_notes_say_which_limit_and_where() -> None:
    *_, state = build("crag", scripted(lambda _call: "Ambiguous"), max_calls=6).stream(ASK, stream_mode="values")
    assert {limit for _, limit in events(state)} == {"max_calls"}


@pytest.mark.parametrize("awaits", [False, True])
def test_searches_by_a_method_are_counted_once(awaits: bool) -> None:
    model = scripted(["So the answer is Ada Brenner."])
    concat = build("concat", model).as_retriever()
    graph = build_graph("concat", model=model, retriever=concat, max_calls=2)
    output = asyncio.run(graph.ainvoke(ASK)) if awaits else graph.invoke(ASK)
    assert (output["answer"], output["truncated"], output["usage"]["calls"]) == ("Ada Brenner", False, 2)


@pytest.mark.parametrize("awaits", [False, True])
@pytest.mark.usefixtures("prices")
def test_searches_by_a_method_cost_what_it_costs(awaits: bool) -> None:
    def run(**options: Any) -> Any:
        model = Priced(script=["Ada Brenner"])
        graph = build_graph("concat", model=model, retriever=build("concat", model).as_retriever(), **options)
        return asyncio.run(graph.ainvoke(ASK)) if awaits else graph.invoke(ASK)

    usage = run()["usage"]
    assert usage["usd"] == pytest.approx((usage["input_tokens"] + usage["output_tokens"]) / 1000)
    assert usage["priced_calls"] == usage["calls"] == 2
    spent = run(max_cost_usd=0.01)
    assert (spent["answer"], spent["truncated"], spent["usage"]["calls"]) == ("Unknown", True, 1)


def test_a_conversation_has_one_budget() -> None:
    model = scripted(["Ada Brenner", "Who built the bridge at Alden?"])
    chat = build_chat("concat", model=model, retriever=RecordingRetriever(), max_calls=1)
    first = chat.invoke({"messages": [("user", ASK["question"])]})
    assert (first["answer"], first["truncated"]) == ("Ada Brenner", False)
    second = chat.invoke({"messages": [*first["messages"], ("user", "And when?")]})
    assert (second["answer"], second["truncated"], second["usage"]["calls"]) == ("Unknown", True, 1)
