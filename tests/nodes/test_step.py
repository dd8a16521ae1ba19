"""Steps: the run's time limit, parallel branches, and options in force."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import RetryPolicy
from tests.scripted import (
    ListRetriever,
    OwnListRetriever,
    ScriptedChat,
    SyncScriptedChat,
    documents,
)

from ragweave import build_graph
from ragweave.errors import RagweaveError, RunTimeoutError, UsageError
from ragweave.graphs import CompiledGraph
from ragweave.nodes.spent import keep_spent, take_spent
from ragweave.state import no_usage
from ragweave.tools.models import is_transient

TWENTY = documents(*(f"passage {index}" for index in range(20)))
GIVEN: Any = {"question": "Where?", "passages": TWENTY}

kinds = pytest.mark.parametrize("kind", [ScriptedChat, SyncScriptedChat])
both = pytest.mark.parametrize("mode", ["sync", "async"])


def attempts(most: int) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=0.001, backoff_factor=1.0, max_attempts=most, retry_on=is_transient
    )


async def run(graph: CompiledGraph, mode: str, given: Any = GIVEN, **settings: Any) -> Any:
    if mode == "async":
        return await graph.ainvoke(given, **settings)
    return graph.invoke(given, **settings)


# -- side by side ------------------------------------------------------------------------------


@kinds
@both
async def test_twenty_branches_are_all_in_flight_at_once(
    mode: str, kind: type[SyncScriptedChat]
) -> None:
    model = kind(replies=["Paris"], together=20)
    out = await run(build_graph("post_fusion", model=model), mode)
    assert (out["answer"], model.most_at_once) == ("Paris", 20)


@kinds
@both
async def test_samples_are_side_by_side_too(mode: str, kind: type[SyncScriptedChat]) -> None:
    model = kind(replies=["Paris"], together=20)
    out = await run(build_graph("concat", model=model, samples=20), mode)
    assert (out["answer"], model.most_at_once) == ("Paris", 20)


@kinds
@both
async def test_max_concurrency_is_respected(mode: str, kind: type[SyncScriptedChat]) -> None:
    model = kind(replies=["Paris"], together=3, delay=0.002)
    graph = build_graph("post_fusion", model=model)
    await run(graph, mode, config={"max_concurrency": 3})
    assert model.most_at_once == 3
    assert len(model.seen) == 20


@kinds
async def test_fifty_questions_at_once(kind: type[SyncScriptedChat]) -> None:
    model = kind(replies=["Paris"], together=50)
    given = [{"question": f"Where is {index}?", "passages": ["a"]} for index in range(50)]
    out = await build_graph("concat", model=model).abatch(given)
    assert [one["question"] for one in out] == [one["question"] for one in given]
    assert model.most_at_once == 50


# -- the run's time limit ----------------------------------------------------------------------


@kinds
@both
async def test_a_call_past_the_limit(mode: str, kind: type[SyncScriptedChat]) -> None:
    graph = build_graph("concat", model=kind(replies=["Paris"], delay=1.5), timeout=0.4)
    with pytest.raises(RunTimeoutError, match="time limit was reached during a call") as caught:
        await run(graph, mode)
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, RagweaveError)


@both
async def test_a_fan_out_past_the_limit(mode: str) -> None:
    model = ScriptedChat(replies=["Paris"], delay=1.0)
    with pytest.raises(RunTimeoutError):
        await run(build_graph("post_fusion", model=model, timeout=0.05), mode)


@both
async def test_a_slow_retriever_counts(mode: str) -> None:
    class Slow(ListRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> Any:
            import time

            time.sleep(1.0)
            return super()._get_relevant_documents(query, run_manager=run_manager)

    graph = build_graph("concat", model=ScriptedChat(), retriever=Slow(), timeout=0.05)
    with pytest.raises(RunTimeoutError):
        await run(graph, mode, {"question": "Where?"})


@both
async def test_the_limit_holds_across_retries(mode: str) -> None:
    model = ScriptedChat(replies=[ConnectionError("down")], delay=0.04)
    graph = build_graph("concat", model=model, timeout=0.05, retry_policy=attempts(100))
    with pytest.raises(RunTimeoutError):
        await run(graph, mode)
    assert len(model.seen) < 100


@both
async def test_a_run_within_the_limit(mode: str) -> None:
    graph = build_graph("concat_pf", model=ScriptedChat(replies=["Unknown"]), timeout=60.0)
    plain = build_graph("concat_pf", model=ScriptedChat(replies=["Unknown"]))
    assert await run(graph, mode) == await run(plain, mode)


@both
async def test_a_models_own_timeout_stays_its_own(mode: str) -> None:
    class StuckError(TimeoutError):
        """A client's timeout."""

    model = ScriptedChat(replies=[StuckError("client")])
    for timeout in (None, 60.0):
        with pytest.raises(StuckError):
            await run(
                build_graph("concat", model=model, timeout=timeout, retry_policy=attempts(1)), mode
            )


def test_a_limit_for_one_run() -> None:
    graph = build_graph("concat", model=ScriptedChat(replies=["Paris"], delay=1.0))
    with pytest.raises(RunTimeoutError):
        graph.invoke(GIVEN, context={"timeout": 0.05})


@pytest.mark.parametrize("how", ["graph.invoke(given)", "asyncio.run(graph.ainvoke(given))"])
@pytest.mark.parametrize("what", ["model", "search"])
def test_a_hung_call_does_not_keep_the_process_alive(what: str, how: str) -> None:
    script = f"""
        import asyncio, sys, time
        from ragweave import build_graph
        from ragweave.errors import RunTimeoutError
        from tests.scripted import OwnListRetriever, SyncScriptedChat

        def hang(seen):
            time.sleep(300)

        class Hung(OwnListRetriever):
            def _find(self, query, k):
                hang(query)

        model = SyncScriptedChat(replies=hang)
        graph = build_graph("post_fusion", model=model, retriever=Hung(), timeout=0.2)
        given = {{"question": "Where?"}}
        if {what!r} == "model":
            given["passages"] = ["a", "b"]
        try:
            {how}
        except RunTimeoutError:
            print("timed out")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "timed out\n"


@kinds
@both
async def test_a_limit_without_end(mode: str, kind: type[SyncScriptedChat]) -> None:
    graph = build_graph("concat", model=kind(replies=["Paris"]), timeout=float("inf"))
    assert (await run(graph, mode))["answer"] == "Paris"


# -- what failed attempts cost -----------------------------------------------------------------


@both
async def test_calls_of_a_failed_attempt_are_counted(mode: str) -> None:
    no_answer, down = "<passage 1>", ConnectionError("down")
    model = ScriptedChat(replies=[no_answer, down, no_answer, down, no_answer, "Paris"])
    graph = build_graph("concat", model=model, retry_policy=attempts(3))
    out = await run(graph, mode)
    assert (out["answer"], out["usage"]["calls"]) == ("Paris", 4)
    assert out["usage"]["by_node"]["concat"]["calls"] == 4
    assert (await run(graph, mode))["usage"]["calls"] == 1


@both
async def test_a_failed_run_leaves_nothing_to_the_next(mode: str) -> None:
    model = ScriptedChat(replies=["<passage 1>", ConnectionError("down"), "Paris"])
    graph = build_graph("concat", model=model, retry_policy=attempts(1))
    with pytest.raises(ConnectionError):
        await run(graph, mode)
    assert (await run(graph, mode))["usage"]["calls"] == 1


async def test_a_resumed_run_counts_what_its_failed_node_spent() -> None:
    model = ScriptedChat(replies=["<passage 1>", ConnectionError("down"), "Paris"])
    graph = build_graph(
        "concat", model=model, retry_policy=attempts(1), checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "1"}}
    with pytest.raises(ConnectionError):
        graph.invoke(GIVEN, config)
    assert graph.invoke(None, config)["usage"]["calls"] == 2


def test_what_failed_runs_leave_is_bounded() -> None:
    def config(number: int) -> Any:
        return {"metadata": {"langgraph_checkpoint_ns": f"node:{number}"}}

    for number in range(1001):
        keep_spent(config(number), no_usage())
    assert take_spent(config(0)) is None
    kept = [take_spent(config(number)) for number in range(1001)]
    assert kept == [None, *[no_usage()] * 1000]
    keep_spent({}, no_usage())
    assert take_spent({}) is None


# -- options in force --------------------------------------------------------------------------


@both
async def test_a_partial_override_takes_the_builds_values_for_the_rest(mode: str) -> None:
    own = OwnListRetriever(documents=TWENTY)
    model = ScriptedChat(replies=["Paris"])
    graph = build_graph("concat", model=model, retriever=own, k=2, samples=2, order="reversed")
    await run(graph, mode, {"question": "Where?"}, context={"k": 3})
    assert [k for _, k in own.asked] == [3]
    assert len(model.seen) == 2
    assert model.seen[0].passages == ["passage 2", "passage 1", "passage 0"]
    await run(graph, mode, {"question": "Where?"})
    assert [k for _, k in own.asked] == [3, 2]


@both
async def test_an_instance_overrides_as_a_whole(mode: str) -> None:
    from ragweave.graphs import METHODS

    own = OwnListRetriever(documents=TWENTY)
    graph = build_graph("concat", model=ScriptedChat(replies=["Paris"]), retriever=own, k=2)
    options = METHODS["concat"].options(k=4)
    await run(graph, mode, {"question": "Where?"}, context=options)
    assert [k for _, k in own.asked] == [4]


def test_routers_see_overrides() -> None:
    own = OwnListRetriever(documents=TWENTY)
    graph = build_graph("direct", model=ScriptedChat(replies=["Paris"]), retriever=own)
    assert graph.invoke({"question": "Where?"})["passages"] == []
    out = graph.invoke({"question": "Where?"}, context={"retrieve": True, "samples": 2, "k": 3})
    assert len(out["passages"]) == 3
    assert len(out["candidates"]) == 2


@both
async def test_a_bad_override(mode: str) -> None:
    graph = build_graph("concat", model=ScriptedChat())
    with pytest.raises(UsageError, match="k must be a whole number of at least 1, not 0"):
        await run(graph, mode, context={"k": 0})
    with pytest.raises((UsageError, TypeError), match="kk"):
        await run(graph, mode, context={"kk": 3})


def test_the_context_schema_shows_the_builds_values() -> None:
    graph = build_graph("direct", model=ScriptedChat(), k=7, order="reversed")
    schema = graph.get_context_jsonschema()
    assert schema is not None
    shown = {name: one.get("default") for name, one in schema["properties"].items()}
    assert shown["k"] == 7
    assert shown["order"] == "reversed"
    assert shown["retrieve"] is False
    assert shown["samples"] == 1
