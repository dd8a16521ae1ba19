"""Work on a real Ray cluster of two nodes, of which one is killed in mid-run."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.towns import planned, records
from tests.openai_server import OpenAIServer, Reply
from tests.ray_cluster import TwoNodes, two_nodes

from ragweave.errors import UsageError
from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunResult,
    evaluate,
    evaluate_on_ray,
)

if find_spec("ray") is None:
    pytest.skip('needs: pip install "ragweave[ray]"', allow_module_level=True)
pytestmark = pytest.mark.loopback


@pytest.fixture(scope="module")
def cluster(socket_enabled_for_module: None) -> Iterator[TwoNodes]:
    with two_nodes() as made:
        yield made


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
    """Ask one follow-up question, then answer."""
    text = str(body["messages"][-1]["content"])
    follow = "Follow up: When did it open?" if "Are follow up" in text[-200:] else "1900"
    return Reply(follow, delay=0.05)


def prompts(server: OpenAIServer) -> Counter[str]:
    return Counter(str(one.body["messages"]) for one in server.requests)


def test_two_nodes_do_what_one_process_does(tmp_path: Path, cluster: TwoNodes) -> None:
    cluster.whole()
    with OpenAIServer(reply) as server:
        here, there = made(tmp_path / "1", server), made(tmp_path / "2", server)
        alone(here, concurrency=4)
        asked = prompts(server)
        server.requests.clear()
        result = on_ray(there, cluster, concurrency=8)
        assert prompts(server) == asked
    assert records(there) == records(here)
    assert (result.complete, result.progress.answered) == (True, 18)
    assert result.progress.spent.paid_calls == asked.total()


def test_a_node_killed_in_mid_run_costs_the_calls_in_flight(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    cluster.whole()
    with OpenAIServer(reply) as server:
        here, there = made(tmp_path / "1", server, 20), made(tmp_path / "2", server, 20)
        alone(here, concurrency=16)
        asked = prompts(server)
        server.requests.clear()

        def killing(body: dict[str, Any]) -> Reply:
            if server.count == asked.total() // 3:
                threading.Thread(target=cluster.kill).start()
            return reply(body)

        server.script = killing
        result = on_ray(there, cluster, concurrency=8)
        again = prompts(server) - asked
    assert records(there) == records(here)
    assert (result.complete, result.progress.answered) == (True, 60)
    assert result.progress.spent.paid_calls == asked.total()
    assert 0 < again.total() <= 8


def test_a_run_begun_there_is_resumed_here_and_the_other_way(
    tmp_path: Path, cluster: TwoNodes
) -> None:
    with OpenAIServer(reply) as server:
        first, second = made(tmp_path / "1", server, 12), made(tmp_path / "2", server, 12)
        assert not on_ray(first, cluster, concurrency=2, budget_tokens=400).complete
        begun = len(records(first))
        assert 0 < begun < 36
        assert alone(first).complete
        calls = server.count
        assert not alone(second, concurrency=2, budget_tokens=400).complete
        assert on_ray(second, cluster).complete
        assert server.count == 2 * calls
    assert records(first) == records(second)
