"""`kill -9` at random moments: the results are an undisturbed run's, no reply is paid for twice.

RAGWEAVE_KILLS sets how often the run is killed (default 3; the full test is 20).
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from tests.command import process_of
from tests.evaluation.towns import planned, prompt, records
from tests.openai_server import OpenAIServer, Reply

from ragweave.evaluation.runs import RunDirectory

pytestmark = pytest.mark.loopback

KILLS = int(os.environ.get("RAGWEAVE_KILLS", "3"))
CONCURRENCY = 4
METHODS = "iter_retgen[k=2,rounds=3],blendfilter[k=2],concat_pf[k=1]"


def speaks(delay: float) -> Any:
    """Return a script whose answer depends on the prompt alone."""

    def script(body: dict[str, Any]) -> Reply:
        text = prompt(body["messages"])
        if "output only the ids" in text.lower():
            return Reply("0", delay=delay)
        number = int(hashlib.sha256(text.encode()).hexdigest()[:6], 16)
        said = "Unknown" if number % 5 == 0 else f"So the answer is {number % 90}"
        return Reply(said, delay=delay)

    return script


@contextlib.contextmanager
def worker(directory: RunDirectory, workers: int) -> Iterator[tuple[IO[str], IO[str]]]:
    """Start the process whose children do the work."""
    script = Path(__file__).with_name("kill_worker.py")
    command = [sys.executable, str(script), str(directory.path), str(CONCURRENCY), str(workers)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=env, text=True) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        try:
            yield one.stdin, one.stdout
        finally:
            one.stdin.close()
            one.wait(timeout=60)


def children(process: int) -> list[int]:
    """Return the processes that a process started."""
    return [
        int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ]


def parent_alone(process: int) -> list[int]:
    return [process]


def one_worker(process: int) -> list[int]:
    return [process_of(one) for one in children(process)[-1:]] or [process]


def everyone(process: int) -> list[int]:
    return [process, *map(process_of, children(process))]


Whom = Callable[[int], list[int]]


def sit(
    pipes: tuple[IO[str], IO[str]],
    server: OpenAIServer,
    kill_after: int | None,
    whom: Whom = parent_alone,
) -> int:
    """Go on with the run; kill it once the server had so many calls. Return the exit code."""
    give, take = pipes
    give.write("go\n")
    give.flush()
    child = int(take.readline())
    until = time.monotonic() + 60
    while kill_after is not None and server.count < kill_after and time.monotonic() < until:
        time.sleep(0.002)
    if kill_after is not None:
        for one in whom(child):
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
    return int(take.readline())


def run_plan(folder: Path, server: OpenAIServer, count: int) -> RunDirectory:
    model = f"openai:scripted?base_url={server.base_url}&max_retries=0"
    return planned(folder, METHODS, count=count, models={"answer": model})


def asked(server: OpenAIServer) -> Counter[str]:
    return Counter(prompt(one.body["messages"]) for one in server.requests)


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_at_random_moments(workers: int, tmp_path: Path) -> None:
    killed_at_random_moments(tmp_path, workers, KILLS)


def killed_at_random_moments(folder: Path, workers: int, kills: int) -> None:
    """Kill a run so often, and compare what it comes to with an undisturbed one."""
    count = max(4, 2 * kills // 3)
    with OpenAIServer(speaks(0.01)) as calm:
        whole = run_plan(folder / "whole", calm, count)
        with worker(whole, 1) as pipes:
            assert sit(pipes, calm, None) == 0
    drawn = random.Random(kills)
    moments = sorted(drawn.sample(range(2, calm.count), kills))
    victims = [one_worker, parent_alone, everyone] if workers > 1 else [parent_alone]
    with OpenAIServer(speaks(0.01)) as server:
        cut = run_plan(folder / "cut", server, count)
        with worker(cut, workers) as pipes:
            turns = zip(moments, itertools.cycle(victims), strict=False)
            ends = [sit(pipes, server, moment, whom) for moment, whom in turns]
            assert sit(pipes, server, None) == 0
    spared = kills // 3 if workers > 1 else 0  # a worker may be done when its turn to die comes
    assert ends.count(0) <= spared
    extra = asked(server) - asked(calm)
    in_flight = server.most_at_once + 2 * workers  # and replies on their way into the journal
    assert extra.total() <= kills * in_flight
    assert not asked(calm) - asked(server)
    assert records(cut) == records(whole)
    assert cut.results.read_bytes().count(b"\n") == len(records(whole))
    with contextlib.closing(sqlite3.connect(cut.state)) as state:
        for table in ("checkpoints", "replies"):
            assert state.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,)
