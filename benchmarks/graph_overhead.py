"""What a graph costs beyond its model: per node, per branch, and against one slow call.

    python benchmarks/graph_overhead.py

Goals: at most 1 ms a node and 0.3 ms a branch with an instant model; Post-Fusion over 20 passages
at most 1.15 times one call of a model that takes 100 ms, sync, async and with a sync-only model
under asyncio. Overheads are processor time, which other programs hardly disturb; ratios come from
one run, so that they mean the same on any machine. `bare_langgraph` is a fan-out of LangGraph's own
over a node that returns a constant: the least that any branch costs. Writes
`benchmarks/results/graph_overhead.json`; exits with 1 where a goal is missed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import operator
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableLambda
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from rich.console import Console
from rich.table import Table
from typing_extensions import TypedDict

from ragweave import build_graph

RESULTS = Path(__file__).parent / "results" / "graph_overhead.json"
GOALS = {"ms_per_node": 1.0, "ms_per_branch": 0.3, "post_fusion_ratio": 1.15}
FEW, MANY, PASSAGES, QUESTIONS, SLOW = 20, 220, 20, 100, 0.1


class Bare(TypedDict):
    """State of the bare fan-out."""

    count: int
    done: Annotated[list[int], operator.add]


class TimedChat(BaseChatModel):
    """Says "Paris" after `seconds`; has no async methods of its own."""

    seconds: float = 0.0

    @property
    def _llm_type(self) -> str:
        return "timed"

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ARG002
        if self.seconds:
            time.sleep(self.seconds)
        return self._said()

    def _said(self) -> ChatResult:
        usage = UsageMetadata(input_tokens=9, output_tokens=1, total_tokens=10)
        message = AIMessage(content="Paris", usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class AsyncTimedChat(TimedChat):
    """The same, awaiting by itself."""

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:  # noqa: ARG002
        if self.seconds:
            await asyncio.sleep(self.seconds)
        return self._said()


def asked(count: int, at: int = 0) -> Any:
    texts = [f"Passage {n}: the Louvre is in Paris." for n in range(count)]
    return {"question": f"Where is the Louvre? ({at})", "passages": texts}


def seconds(work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the best time of a call; the best is the one that nothing else disturbed."""
    work()
    times = []
    gc.collect()
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


async def aseconds(
    work: Callable[[], Awaitable[object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the best time of an awaited call."""
    await work()
    times = []
    gc.collect()
    for _ in range(repeats):
        start = clock()
        await work()
        times.append(clock() - start)
    return min(times)


def ms(work: Callable[[], object], repeats: int) -> float:
    """Return the processor time of a call in milliseconds, all threads together."""
    return 1000 * seconds(work, repeats, time.process_time)


def ams(work: Callable[[], Awaitable[object]], repeats: int) -> float:
    """Return the processor time of an awaited call in milliseconds."""
    return 1000 * asyncio.run(aseconds(work, repeats, time.process_time))


def model_call() -> dict[str, float]:
    """Return what an instant model's own `invoke` and `ainvoke` cost, in milliseconds."""
    messages = [HumanMessage("Where is the Louvre?")]
    model = AsyncTimedChat()

    async def many() -> None:
        for _ in range(200):
            await model.ainvoke(messages)

    return {
        "sync_ms": ms(lambda: [model.invoke(messages) for _ in range(200)], 7) / 200,
        "async_ms": ams(many, 7) / 200,
    }


def per_node(call: dict[str, float]) -> dict[str, float]:
    """Return the cost of a node: a whole `concat` run, less its one model call, by its 4 nodes."""
    graph, given = build_graph("concat", model=AsyncTimedChat()), asked(5)
    sync = ms(lambda: graph.invoke(given), 50)
    other = ams(lambda: graph.ainvoke(given), 50)
    return {
        "sync_ms": (sync - call["sync_ms"]) / 4,
        "async_ms": (other - call["async_ms"]) / 4,
        "whole_run_sync_ms": sync,
        "whole_run_async_ms": other,
    }


def per_branch(call: dict[str, float]) -> dict[str, float]:
    """Return the cost of a branch: what 200 more branches add, less their model calls."""
    graph = build_graph("post_fusion", model=AsyncTimedChat())
    few, many = asked(FEW), asked(MANY)
    gross = added_by_branches(graph, few, many)
    return {
        **{name: value - call[name] for name, value in gross.items()},
        **{f"with_model_{name}": value for name, value in gross.items()},
    }


def added_by_branches(graph: Any, few: Any, many: Any) -> dict[str, float]:
    """Return what a branch adds: the difference of two fan-outs by their difference in branches."""

    def sync(given: Any) -> float:
        return ms(lambda: graph.invoke(given), 10)

    def other(given: Any) -> float:
        return ams(lambda: graph.ainvoke(given), 10)

    return {
        "sync_ms": (sync(many) - sync(few)) / (MANY - FEW),
        "async_ms": (other(many) - other(few)) / (MANY - FEW),
    }


def bare_langgraph() -> dict[str, float]:
    """Return the cost of a branch of a fan-out that does nothing."""
    draft = StateGraph(Bare)
    draft.add_node("branch", RunnableLambda(lambda _: {"done": [1]}, _done))
    draft.add_conditional_edges(
        START,
        lambda state: [Send("branch", {"count": n}) for n in range(state["count"])],
        ["branch"],
    )
    draft.add_edge("branch", END)
    graph = draft.compile().with_config({"max_concurrency": 1024})
    return added_by_branches(graph, {"count": FEW}, {"count": MANY})


async def _done(_: object) -> dict[str, list[int]]:
    return {"done": [1]}


def against_one_call() -> dict[str, float]:
    """Return Post-Fusion over 20 passages by one call of the same slow model."""
    given, messages = asked(PASSAGES), [HumanMessage("Where is the Louvre?")]
    model, sync_only = AsyncTimedChat(seconds=SLOW), TimedChat(seconds=SLOW)
    graph = build_graph("post_fusion", model=model)
    threaded = build_graph("post_fusion", model=sync_only)
    one_call = seconds(lambda: model.invoke(messages), 5)
    return {
        "sync": seconds(lambda: graph.invoke(given), 10) / one_call,
        "async": asyncio.run(aseconds(lambda: graph.ainvoke(given), 10)) / one_call,
        "sync_only_model_async": asyncio.run(aseconds(lambda: threaded.ainvoke(given), 10)) / one_call,
    }


def a_hundred_questions() -> dict[str, float]:
    """Return the time of 100 questions at once by that of one, by `max_concurrency`."""
    graph = build_graph("concat", model=AsyncTimedChat(seconds=SLOW))
    given = [asked(5, at) for at in range(QUESTIONS)]
    one_question = asyncio.run(aseconds(lambda: graph.ainvoke(given[0]), 5))

    def at_once(most: int) -> float:
        config: Any = {"max_concurrency": most}
        return asyncio.run(aseconds(lambda: graph.abatch(given, config), 3)) / one_question

    return {f"max_concurrency_{most}": at_once(most) for most in (10, 50, 100)}


def measure() -> dict[str, dict[str, float]]:
    call = model_call()
    return {
        "model_call": call,
        "node": per_node(call),
        "branch": per_branch(call),
        "bare_langgraph_branch": bare_langgraph(),
        "post_fusion_of_20_by_one_call": against_one_call(),
        "hundred_questions_by_one": a_hundred_questions(),
    }


def missed(measured: dict[str, dict[str, float]]) -> list[str]:
    """Return the goals that were missed."""
    checks = {
        **{f"node {how}": (measured["node"][how], GOALS["ms_per_node"]) for how in ("sync_ms", "async_ms")},
        **{f"branch {how}": (measured["branch"][how], GOALS["ms_per_branch"]) for how in ("sync_ms", "async_ms")},
        **{
            f"post_fusion {how}": (value, GOALS["post_fusion_ratio"])
            for how, value in measured["post_fusion_of_20_by_one_call"].items()
        },
    }
    return [f"{name}: {value:.3f}, goal {goal}" for name, (value, goal) in checks.items() if value > goal]


def main() -> int:
    measured = measure()
    table = Table("what", "how", "value", title="Graph overhead")
    for what, values in measured.items():
        for how, value in values.items():
            table.add_row(what, how, f"{value:.3f}")
    console = Console()
    console.print(table)
    misses = missed(measured)
    for line in misses:
        console.print(f"[red]missed[/red] {line}")
    RESULTS.parent.mkdir(exist_ok=True)
    report = {"goals": GOALS, "found": measured, "missed": misses}
    RESULTS.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 1 if misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
