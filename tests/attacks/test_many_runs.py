"""Many runs of one compiled graph: at once, in a row, and broken off."""

from __future__ import annotations

import asyncio
import gc
import random
import re
import subprocess
import threading
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.command import CODE
from tests.scripted import OwnListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph

ROOT = Path(__file__).parents[2]
PASSAGES = documents(*(f"Passage number {number} is here." for number in range(8)))


def says(seen: Seen) -> str:
    """Answer with the question's number and how many passages the prompt shows."""
    asked = re.findall(r"number (\d+)\?", seen.text)
    return f"{asked[-1]} of {len(seen.passages)}" if asked else "Unknown"


def graph(method: str = "concat", **settings: Any) -> tuple[Any, ScriptedChat]:
    model = ScriptedChat(replies=says, **settings)
    return build_graph(method, model=model, retriever=OwnListRetriever(documents=PASSAGES)), model


def check(number: int, k: int, out: dict[str, Any]) -> None:
    assert out["question"] == f"Which is number {number}?"
    assert len(out["passages"]) == k
    assert out["answer"] == f"{number} of {k}"
    assert out["usage"]["calls"] == 1


@pytest.mark.parametrize("is_async", [True, False])
def test_runs_at_once_do_not_mix(is_async: bool, trials: Callable[[int], None]) -> None:
    run_at_once(50, is_async=is_async)
    trials(49)


@pytest.mark.attack
@pytest.mark.parametrize("is_async", [True, False])
def test_many_runs_at_once_do_not_mix(is_async: bool, trials: Callable[[int], None]) -> None:
    run_at_once(200, is_async=is_async)
    trials(199)


def run_at_once(runs: int, *, is_async: bool) -> None:
    made, _ = graph(delay=0.005)
    asked = [(number, 1 + number % 8) for number in range(runs)]

    def give(number: int, k: int) -> dict[str, Any]:
        return {"input": {"question": f"Which is number {number}?"}, "context": {"k": k}}

    async def gathered() -> list[dict[str, Any]]:
        return await asyncio.gather(*(made.ainvoke(**give(*one)) for one in asked))

    if is_async:
        found = asyncio.run(gathered())
    else:
        with ThreadPoolExecutor(runs) as pool:
            found = list(pool.map(lambda one: made.invoke(**give(*one)), asked))
    for (number, k), out in zip(asked, found, strict=True):
        check(number, k, out)


def run_in_a_row(runs: int) -> tuple[int, int, int]:
    """Return threads, objects and bytes that the second half of the runs added."""
    model, retriever = ScriptedChat(replies=says), OwnListRetriever(documents=PASSAGES)
    made = build_graph("concat_pf", model=model, retriever=retriever)

    def ask(first: int, last: int) -> None:
        for number in range(first, last):
            made.invoke({"question": f"Which is number {number}?"}, context={"k": 2})
        model.seen.clear()
        retriever.asked.clear()
        gc.collect()

    ask(0, runs // 2)
    tracemalloc.start()
    try:
        ask(0, min(runs // 2, 100))  # what takes the place of older objects is counted from now on
        threads, objects = threading.active_count(), len(gc.get_objects())
        before = tracemalloc.get_traced_memory()[0]
        ask(runs // 2, runs)
        held = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    return threading.active_count() - threads, len(gc.get_objects()) - objects, held


def flat(runs: int) -> None:
    gc.unfreeze()
    threads, objects, held = run_in_a_row(runs)
    assert threads <= 0
    assert objects < 100
    assert held < 50_000  # the question alone of each run would be more


def flat_alone(runs: int) -> None:
    """Check it in a process of its own, where no other test has left threads, hooks and caches."""
    code = f"from tests.attacks.test_many_runs import flat; flat({runs})"
    done = subprocess.run([*CODE, code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_runs_in_a_row_leave_nothing(trials: Callable[[int], None]) -> None:
    flat_alone(30)
    trials(29)


@pytest.mark.attack
def test_many_runs_in_a_row_leave_nothing(trials: Callable[[int], None]) -> None:
    flat_alone(2_000)
    trials(1_999)


def cancel_at_random(runs: int) -> None:
    made, model = graph("concat_pf", delay=0.02)
    rng = random.Random(runs)

    async def broken_off() -> int:
        stopped = 0
        for number in range(0, runs, 10):
            tasks = [
                asyncio.create_task(made.ainvoke({"question": f"Which is number {one}?"}))
                for one in range(number, number + 10)
            ]
            for task in tasks:
                await asyncio.sleep(rng.random() * 0.004)
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            stopped += sum(isinstance(one, asyncio.CancelledError) for one in ended)
            others = asyncio.all_tasks() - {asyncio.current_task()}
            assert others == set()
            asked = len(model.seen)
            assert model._in_flight == 0
            await asyncio.sleep(0.03)
            assert len(model.seen) == asked
        return stopped

    threads = threading.active_count()
    assert asyncio.run(broken_off()) > runs // 3
    assert threading.active_count() <= threads


def test_cancelled_runs_leave_nothing_running(trials: Callable[[int], None]) -> None:
    cancel_at_random(20)
    trials(19)


@pytest.mark.attack
def test_many_cancelled_runs_leave_nothing_running(trials: Callable[[int], None]) -> None:
    cancel_at_random(400)
    trials(399)
