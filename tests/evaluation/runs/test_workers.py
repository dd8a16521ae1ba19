"""Several processes on one run: the same results, one budget, one end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.command import WORKER, process_of
from tests.evaluation.towns import planned, records
from tests.openai_server import OpenAIServer, Reply
from tests.tools.test_tracing import Collector, collector

from ragweave.errors import UsageError
from ragweave.evaluation.runs import (
    Progress,
    RunConfig,
    RunDirectory,
    RunResult,
    WorkerError,
    evaluate,
    evaluate_in_workers,
    workers,
)
from ragweave.tools.logs import log_to_stderr
from ragweave.tools.tracing import instrument

__all__ = ["collector"]

pytestmark = pytest.mark.loopback

METHODS = "direct,concat[k=1]"


@pytest.fixture(autouse=True)
def _workers_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORKER", WORKER)


def made(folder: Path, server: OpenAIServer, count: int = 6, **settings: Any) -> RunDirectory:
    model = f"openai:m?base_url={server.base_url}&max_retries=0"
    return planned(folder, METHODS, count=count, models={"answer": model}, **settings)


def work(directory: RunDirectory, workers: int = 2, **config: Any) -> RunResult:
    return asyncio.run(evaluate_in_workers(directory, RunConfig(**config), workers=workers))


def test_two_workers_do_what_one_process_does(tmp_path: Path) -> None:
    told: list[tuple[int, str]] = []
    tallies: list[Progress] = []

    def tell(progress: Progress, record: dict[str, Any] | None) -> None:
        tallies.append(progress)
        if record is not None:
            told.append((record["at"], record["system"]))

    with OpenAIServer(lambda _body: Reply("1900", delay=0.05)) as server:
        alone, shared = made(tmp_path / "1", server), made(tmp_path / "2", server)
        asyncio.run(evaluate(alone, RunConfig(concurrency=4)))
        calls, server.most_at_once = server.count, 0
        result = asyncio.run(
            evaluate_in_workers(shared, RunConfig(concurrency=5), workers=2, on_progress=tell)
        )
        assert server.count == 2 * calls
        assert server.most_at_once <= 5
    assert records(shared) == records(alone)
    assert Counter(told).most_common(1)[0][1] == 1
    assert len(told) == 12
    assert (result.complete, result.progress.answered, result.progress.spent.paid_calls) == (
        True,
        12,
        12,
    )
    assert result.progress.running["direct"] == ("em", 1 / 6)


def test_another_number_of_workers_goes_on(tmp_path: Path) -> None:
    with OpenAIServer("1900") as server:
        directory = made(tmp_path, server, count=8)
        asyncio.run(evaluate(directory, RunConfig(concurrency=1, budget_tokens=1)))
        begun = len(records(directory))
        assert 0 < begun < 16
        assert work(directory, workers=3, concurrency=3).complete
        assert server.count == 16
    assert len(records(directory)) == 16


def test_a_budget_holds_over_all_workers_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    with OpenAIServer(lambda _body: Reply("1900", delay=0.1)) as server:
        directory = made(tmp_path, server, count=30)
        result = work(directory, concurrency=2, budget_tokens=1)
        assert not result.complete
        assert 0 < result.progress.answered <= 6  # in flight when it was spent, or begun meanwhile
        assert len(records(directory)) == result.progress.answered
        assert work(directory, concurrency=16).complete
        assert server.count == 60


def test_a_fault_that_ends_the_run_is_raised_as_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OpenAIServer("1900", key="right") as server:
        monkeypatch.setenv("OPENAI_API_KEY", "wrong")
        directory = made(tmp_path, server)
        with pytest.raises(WorkerError, match="401") as caught:
            work(directory, concurrency=4)
    assert caught.value.status_code == 401
    assert not records(directory)
    broken = planned(tmp_path / "none", "concat", corpus="none")
    with pytest.raises(UsageError, match="unknown model"):
        work(broken, concurrency=4)


def test_a_killed_worker_is_told_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    async def kill_one(directory: RunDirectory, server: OpenAIServer) -> None:
        work = asyncio.ensure_future(
            evaluate_in_workers(directory, RunConfig(concurrency=2), workers=2)
        )
        while server.count < 3:
            await asyncio.sleep(0.01)
        listed = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        os.kill(process_of(int(listed[-1])), signal.SIGKILL)
        await work

    with OpenAIServer(lambda _body: Reply("1900", delay=0.1)) as server:
        directory = made(tmp_path, server, count=20)
        with pytest.raises(WorkerError, match="was killed by signal 9"):
            asyncio.run(kill_one(directory, server))
        assert work(directory, concurrency=16).complete
    assert len(records(directory)) == 40


def test_no_worker_is_no_number_of_workers(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    with pytest.raises(UsageError, match="--workers must be at least 1"):
        work(directory, workers=0)


def test_workers_log_as_the_command_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with OpenAIServer(lambda _body: Reply("1900")) as server:
        for verbosity, directory in enumerate([made(tmp_path / name, server) for name in "abc"]):
            with log_to_stderr(verbosity):
                work(directory)
            assert (" took " in capfd.readouterr().err) == (verbosity == 2)
        work(made(tmp_path / "quiet", server))
    assert capfd.readouterr().err == ""


def test_workers_send_their_spans(tmp_path: Path, collector: Collector) -> None:
    instrument(f"http://127.0.0.1:{collector.server_port}")
    with OpenAIServer(lambda _body: Reply("1900")) as server:
        work(made(tmp_path, server))
    assert {"direct", "concat"} <= {span.name for span in collector.spans}
