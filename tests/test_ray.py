"""Work on a real Ray cluster of two nodes, of which one is killed in mid-run."""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunResult,
    evaluate,
    evaluate_on_ray,
)
from ragweave.tools.cluster import pool
from ragweave.training.labels import (
    JudgeLabeler,
    LabelConfig,
    LabelerSpec,
    make_labels,
    open_source,
)
from tests.evaluation.towns import planned, records, towns
from tests.openai_server import OpenAIServer, Reply
from tests.ray_cluster import TwoNodes, two_nodes

if find_spec("ray") is None:
    pytest.skip('needs: pip install "ragweave[ray]"', allow_module_level=True)
pytestmark = pytest.mark.loopback


@pytest.fixture(scope="module")
def cluster(socket_enabled_for_module: None) -> Iterator[TwoNodes]:
    with pytest.MonkeyPatch.context() as patch, two_nodes() as made:
        patch.setattr(pool, "_TOGETHER_SECONDS", 60.0)  # both nodes work when one is killed
        yield made


IN_FLIGHT = 8
METHODS = "direct,concat[k=1],self_ask"


def made(folder: Path, server: OpenAIServer, count: int = 6, **settings: Any) -> RunDirectory:
    model = f"openai:m?base_url={server.base_url}&max_retries=0"
    return planned(folder, METHODS, count=count, models={"answer": model}, **settings)


def alone(directory: RunDirectory, **config: Any) -> RunResult:
    return asyncio.run(evaluate(directory, RunConfig(**config)))


def on_ray(directory: RunDirectory, cluster: TwoNodes, **config: Any) -> RunResult:
    work = evaluate_on_ray(directory, RunConfig(**config), address=cluster.address)
    return asyncio.run(work)


def reply(body: dict[str, Any]) -> Reply:
    """Ask follow-up questions, each of its own, then answer."""
    text = str(body["messages"][-1]["content"])
    town = re.findall(r"bridge of (\w+)", text)[-1]
    asked = f"Follow up: When did bridge {text.count('Follow up:')} of {town} open?"
    return Reply(asked if "Are follow up" in text[-200:] else "1900", delay=0.05)


def prompts(server: OpenAIServer) -> Counter[str]:
    return Counter(str(one.body["messages"]) for one in server.requests)


class Killing:
    """Replies; from a number of requests on it holds them, until it has killed a node.

    It waits for as many as are in flight at once, so that the node dies with its calls under way.
    """

    def __init__(self, server: OpenAIServer, cluster: TwoNodes, number: int) -> None:
        self.server, self.cluster, self.number = server, cluster, number
        self.lock, self.killed, self.held = threading.Lock(), threading.Event(), 0

    def __call__(self, body: dict[str, Any]) -> Reply:
        if self.server.count >= self.number and not self.killed.is_set():
            with self.lock:
                self.held += 1
                last = self.held == IN_FLIGHT
            if last:
                self.cluster.kill()
                self.killed.set()
            assert self.killed.wait(60)
        return reply(body)


def begin(directory: RunDirectory, server: OpenAIServer, calls: int) -> None:
    """Work on a run in this process until so many calls were made; leave it in mid-question."""

    async def work() -> None:
        running = asyncio.ensure_future(evaluate(directory, RunConfig(concurrency=IN_FLIGHT)))
        while server.count < calls:
            await asyncio.sleep(0.01)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(work())


def test_a_run_is_resumed_there_and_a_node_killed_in_mid_run_costs_the_calls_in_flight(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    cluster.whole()
    with OpenAIServer(reply) as server:
        here, there = made(tmp_path / "1", server, 20), made(tmp_path / "2", server, 20)
        alone(here, concurrency=16)
        asked = prompts(server)
        assert set(asked.values()) == {1}
        server.requests.clear()
        begin(there, server, 20)
        finished = len(records(there))
        assert 0 < finished < 20
        assert len(prompts(server)) > finished
        server.script = Killing(server, cluster, server.count + 30)
        cache = tmp_path / "cache.sqlite"
        result = on_ray(there, cluster, concurrency=IN_FLIGHT, cache=cache)
        again = prompts(server) - asked
        server.requests.clear()
        third = made(tmp_path / "3", server, 20)
        alone(third, cache=cache)
        assert not prompts(server) - asked
        assert server.count <= 20 + IN_FLIGHT  # what was begun without the cache
    assert records(there) == records(here)
    assert (result.complete, result.progress.answered) == (True, 60)
    assert result.progress.spent.paid_calls == asked.total()
    assert 0 < again.total() <= 2 * IN_FLIGHT


def test_a_budget_stops_all_nodes_and_the_run_is_resumed_here(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    with OpenAIServer(reply) as server:
        here, there = made(tmp_path / "1", server, 12), made(tmp_path / "2", server, 12)
        alone(here)
        calls = server.count
        stopped = on_ray(there, cluster, concurrency=2, budget_tokens=400)
        assert not stopped.complete
        spent, begun = stopped.progress.spent.paid_tokens, stopped.progress.answered
        most = max(one["usage"]["input_tokens"] for one in records(there))
        assert 400 <= spent <= 400 + 2 * 2 * most
        assert 0 < begun < 36
        assert alone(there).complete
        assert server.count == 2 * calls
    assert records(there) == records(here)


def judged(server: OpenAIServer) -> LabelerSpec:
    model = f"openai:m?base_url={server.base_url}&max_retries=0"
    return LabelerSpec(JudgeLabeler, {"proxy": model}, {"balance": False})


def test_rows_are_labelled_there_as_here_and_a_lost_node_costs_the_calls_in_flight(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    cluster.whole()
    source, config = open_source(f"jsonl:{towns(tmp_path, 40)}"), LabelConfig(concurrency=IN_FLIGHT)
    with OpenAIServer(reply) as server:
        labeler = judged(server)
        here = make_labels(source, labeler, tmp_path / "here.jsonl", config=config)
        asked = prompts(server)
        server.requests.clear()

        server.script = Killing(server, cluster, 12)
        out = tmp_path / "there.jsonl"
        there = make_labels(source, labeler, out, ray=cluster.address, config=config)
        again = prompts(server) - asked
    assert there.path.read_bytes() == here.path.read_bytes()
    assert 0 < again.total() <= IN_FLIGHT
