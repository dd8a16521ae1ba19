"""Where the processor time of a one-call question goes, beside barer loops over the same server.

    python benchmarks/eval_cost.py                # writes benchmarks/results/eval_cost.json

A loopback server (that of `eval_throughput.py`) answers at once, so that nothing is measured but
this side's work: milliseconds of processor time a question, the best of some rounds, for

* `openai`: the OpenAI client alone, what FlashRAG's loop is made of;
* `FlashRAG`: its own `OpenaiGenerator.generate`, where the package lies in the environment
  (`pip install --no-deps flashrag-dev`): prompts in batches, no state, nothing kept;
* `ChatOpenAI`: LangChain's model over that client;
* `LangGraph`: a graph with as many nodes as `direct` that do nothing, and one that asks ChatOpenAI:
  the floor of anything built on it; `LangGraph, checkpoints` keeps them in memory besides;
* `graph`: `build_graph("direct")`; `run`: `ragweave eval`, which records each answer durably.

Last, the shares of a run by package, of the time that each function itself takes (cProfile, which
slows Python code more than compiled code).
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import importlib.util
import json
import os
import pstats
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from eval_throughput import at_once, cpu, server, write_questions

RESULT = Path(__file__).resolve().parent / "results" / "eval_cost.json"
METHODS = "direct,cot,concat,summary"
if TYPE_CHECKING:
    from openai import AsyncOpenAI

Ask = Callable[[int], Awaitable[object]]
PACKAGES = (
    *("ragweave/evaluation", "ragweave/nodes", "ragweave/graphs", "ragweave/tools", "ragweave"),
    *("langgraph", "langchain_core", "langchain_openai", "langsmith", "openai", "aiohttp"),
    *("httpx", "pydantic", "asyncio", "typing", "json"),
)


def question(at: int) -> str:
    """Return a question."""
    return f"When did the bridge of town {at} open?"


def bare_graph(client: Any, nodes: int, **compiled: Any) -> Any:
    """Return a LangGraph graph of so many nodes, of which the middle one asks."""
    from langgraph.graph import START, StateGraph
    from typing_extensions import TypedDict

    class State(TypedDict, total=False):
        question: str
        answer: str

    async def asks(state: State) -> State:
        return {"answer": (await client.ainvoke(state["question"])).content}

    async def nothing(state: State) -> State:
        return {"question": state["question"]}

    graph = StateGraph(State)
    before = START
    for at in range(nodes):
        graph.add_node(f"node_{at}", asks if at == nodes // 2 else nothing)
        graph.add_edge(before, f"node_{at}")
        before = f"node_{at}"
    return graph.compile(**compiled)


def loops(bare: AsyncOpenAI, client: Any) -> dict[str, Ask]:
    """Return what asks one question, by name."""
    from langgraph.checkpoint.memory import InMemorySaver

    from ragweave.graphs import build_graph

    direct = build_graph("direct", model=client)
    nodes = len(direct.get_graph().nodes) - 2
    floor, kept = bare_graph(client, nodes), bare_graph(client, nodes, checkpointer=InMemorySaver())

    def user(at: int) -> list[dict[str, str]]:
        return [{"role": "user", "content": question(at)}]

    return {
        "openai": lambda at: bare.chat.completions.create(model="m", messages=user(at)),  # type: ignore[arg-type]
        "ChatOpenAI": lambda at: client.ainvoke(question(at)),
        "LangGraph": lambda at: floor.ainvoke({"question": question(at)}),
        "LangGraph, checkpoints": lambda at: kept.ainvoke(
            {"question": question(at)}, {"configurable": {"thread_id": str(at)}}
        ),
        "graph": lambda at: direct.ainvoke({"question": question(at)}),
    }


async def by_loop(model: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the processor milliseconds a question of each loop."""
    from openai import AsyncOpenAI
    from ragweave.evaluation.runs.models import models_of

    found = {}
    url = model.partition("base_url=")[2].partition("&")[0]
    async with (
        models_of({"answer": model}, {}) as models,
        AsyncOpenAI(base_url=url, api_key="none") as bare,
    ):
        for name, ask in loops(bare, models["answer"]).items():
            await at_once(ask, options.concurrency, options.concurrency)
            rounds = []
            for _ in range(options.rounds):
                before = cpu()
                await at_once(ask, options.questions, options.concurrency)
                rounds.append((cpu() - before) / options.questions * 1000)
            found[name] = round(min(rounds), 2)
    return found


def flashrag(model: str, options: argparse.Namespace) -> float | None:
    """Return the same of FlashRAG's generator; None where it is not installed."""
    spec = importlib.util.find_spec("flashrag")
    if spec is None or not spec.submodule_search_locations:
        return None
    from openai import AsyncOpenAI

    # The module alone: the package imports torch, and its constructor a tokenizer of the network.
    path = Path(spec.submodule_search_locations[0]) / "generator" / "openai_generator.py"
    loaded = importlib.util.spec_from_file_location("openai_generator", path)
    assert loaded is not None
    assert loaded.loader is not None
    module = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(module)
    generator = module.OpenaiGenerator.__new__(module.OpenaiGenerator)
    generator.model_name, generator.batch_size = "m", options.concurrency
    generator.generation_params = {"max_tokens": 32}
    url = model.partition("base_url=")[2].partition("&")[0]
    rounds = []
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)  # which it looks for
    generator.client = AsyncOpenAI(base_url=url, api_key="none")
    prompts = [[{"role": "user", "content": question(at)}] for at in range(options.questions)]
    generator.generate(prompts[: options.concurrency])
    for _ in range(options.rounds):
        before = cpu()
        generator.generate(prompts)
        rounds.append((cpu() - before) / options.questions * 1000)
    loop.run_until_complete(generator.client.close())
    asyncio.set_event_loop(None)
    loop.close()
    return round(min(rounds), 2)


def run_once(model: str, options: argparse.Namespace, profile: cProfile.Profile | None) -> float:
    """Return the processor milliseconds a question of a run, start and end included."""
    from ragweave.evaluation.runs import RunConfig, claim_directory, parse_systems, plan
    from ragweave.evaluation.runs.directory import hold
    from ragweave.evaluation.runs.run import answer, checked

    with tempfile.TemporaryDirectory() as place:
        questions, systems = Path(place) / "questions.jsonl", parse_systems(METHODS)
        write_questions(questions, options.questions // len(systems))
        made = plan(f"jsonl:{questions}", systems, {"answer": model})
        directory = claim_directory(Path(place) / "run", made)
        config = RunConfig(concurrency=options.concurrency)
        dataset = checked(directory.settings, config)
        with hold(directory):
            before = cpu()
            if profile is not None:
                profile.enable()
            result = asyncio.run(answer(directory, config, dataset))
            if profile is not None:
                profile.disable()
        return (cpu() - before) / result.progress.answered * 1000


def shares(model: str, options: argparse.Namespace) -> dict[str, float]:
    """Return the share of a run's time by package, in per cent."""
    profile = cProfile.Profile()
    run_once(model, options, profile)
    spent: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own, _, callers) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if file == "~":  # compiled code counts for who called it
            for (caller, _, _), (_, _, share, _) in callers.items():
                spent[package(caller)] += share
        else:
            spent[package(file)] += own
    total = sum(spent.values())
    ordered = sorted(spent.items(), key=itemgetter(1), reverse=True)
    return {name: round(100 * value / total, 1) for name, value in ordered if value > total / 200}


def package(file: str) -> str:
    """Return the package that a file belongs to."""
    return next((name for name in PACKAGES if f"/{name}" in file), "other")


def measured(options: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """Yield each result."""
    with server() as (model, latency, _):
        latency.value = 0.0
        costs = asyncio.run(by_loop(model, options))
        costs["run"] = round(min(run_once(model, options, None) for _ in range(options.rounds)), 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a foreign package
            theirs = flashrag(model, options)
        if theirs is not None:
            costs["FlashRAG"] = theirs
        yield "processor_ms_a_question", dict(sorted(costs.items(), key=itemgetter(1)))
        yield "share_of_a_run_percent", shares(model, options)


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--questions", type=int, default=1280)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[str, Any] = {"cores": os.cpu_count(), "questions": options.questions}
    found["load_before"] = round(os.getloadavg()[0], 1)
    for name, result in measured(options):
        found[name] = result
        table = Table("", name)
        for key, value in result.items():
            table.add_row(key, str(value))
        Console().print(table)
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
