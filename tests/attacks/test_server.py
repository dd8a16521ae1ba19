"""A model server that fails nearly every third time: every question is answered or recorded, once."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.towns import planned, records
from tests.openai_server import Answer, BrokenJson, Drop, Hang, HttpFault, OpenAIServer, Reply

from ragweave.evaluation.runs import RunConfig, evaluate
from ragweave.evaluation.runs.directory import lines_of

pytestmark = pytest.mark.loopback

SHARE = 0.3
TIMEOUT = 0.4
"""Seconds after which the client gives a call up."""


def faults() -> list[Answer]:
    wrong: Any = ("many", None)
    return [
        HttpFault(429, retry_after=0.01),
        HttpFault(500),
        Hang(TIMEOUT * 2),
        Drop(),
        Drop(after=2),
        BrokenJson(),
        BrokenJson("[]"),
        BrokenJson('{"choices": []}'),
        BrokenJson('{"choices": [{"message": {"role": "assistant", "content": null}}]}'),
        Reply("1900", usage=(-7, -7)),
        Reply("1900", usage=wrong),
    ]


class Unreliable:
    """Fails a share of the calls, in an order that the seed decides."""

    def __init__(self, seed: int) -> None:
        self._rng, self._lock = random.Random(seed), threading.Lock()
        self.failed: Counter[str] = Counter()

    def __call__(self, body: dict[str, Any]) -> Answer:
        with self._lock:
            if self._rng.random() >= SHARE:
                return Reply("1900")
            fault = self._rng.choice(faults())
            self.failed[type(fault).__name__] += 1
            return fault


def ask_all(folder: Path, count: int) -> None:
    script = Unreliable(count)
    with OpenAIServer(script) as server:
        model = f"openai:m?base_url={server.base_url}&max_retries=0&timeout={TIMEOUT}"
        run = planned(folder, "concat[k=1]", count=count, models={"answer": model})
        done = asyncio.run(evaluate(run, RunConfig(concurrency=32)))
    assert done.complete
    assert len(script.failed) == 5
    places = Counter((one["at"], one["system"]) for one in lines_of(run.results))
    assert len(places) == places.total() == count
    ended = records(run)
    failed = [one for one in ended if one["error"]]
    assert (done.progress.answered, done.progress.failed) == (count - len(failed), len(failed))
    assert all(one["error"]["text"] for one in failed)
    for one in ended:
        if not one["error"]:
            assert one["answer"] in ("1900", "Unknown")
            spent = one["spent"]["paid"]["answer"]
            assert min(spent.values()) >= 0
    with OpenAIServer("1900") as server:
        calm = {"answer": f"openai:m?base_url={server.base_url}&max_retries=0"}
        from ragweave.evaluation.runs.models import models_of

        async def again() -> Any:
            async with models_of(calm, {}) as models:
                config = RunConfig(concurrency=32, retry_failed=True)
                return await evaluate(run, config, models=models)

        again_done = asyncio.run(again())
        assert server.count == len(failed)
    assert again_done.progress.failed == 0
    assert len(records(run)) == count


def test_an_unreliable_server(tmp_path: Path, trials: Callable[[int], None]) -> None:
    ask_all(tmp_path, 100)
    trials(99)


@pytest.mark.attack
def test_an_unreliable_server_for_long(tmp_path: Path, trials: Callable[[int], None]) -> None:
    ask_all(tmp_path, 1_000)
    trials(999)
