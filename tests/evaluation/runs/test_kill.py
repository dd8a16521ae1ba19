"""`kill -9` at random moments: the results are an undisturbed run's, no reply is paid for twice.

RAGWEAVE_KILLS sets how often the run is killed (default 3; the full test is 20).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pytest
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
def worker(directory: RunDirectory) -> Iterator[tuple[IO[str], IO[str]]]:
    """Start the process whose children do the work."""
    script = Path(__file__).with_name("kill_worker.py")
    command = [sys.executable, str(script), str(directory.path), str(CONCURRENCY)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        try:
            yield one.stdin, one.stdout
        finally:
            one.stdin.close()
            one.wait(timeout=60)


def sit(pipes: tuple[IO[str], IO[str]], server: OpenAIServer, kill_after: int | None) -> int:
    """Go on with the run; kill it once the server had so many calls. Return the exit code."""
    give, take = pipes
    give.write("go\n")
    give.flush()
    child = int(take.readline())
    until = time.monotonic() + 60
    while kill_after is not None and server.count < kill_after and time.monotonic() < until:
        time.sleep(0.002)
    if kill_after is not None:
        os.kill(child, signal.SIGKILL)
    return int(take.readline())


def run_plan(folder: Path, server: OpenAIServer, count: int) -> RunDirectory:
    model = f"openai:scripted?base_url={server.base_url}&max_retries=0"
    return planned(folder, METHODS, count=count, models={"answer": model})


def asked(server: OpenAIServer) -> Counter[str]:
    return Counter(prompt(one.body["messages"]) for one in server.requests)


def test_killed_at_random_moments(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count = max(4, 2 * KILLS // 3)
    with OpenAIServer(speaks(0.01)) as calm:
        whole = run_plan(tmp_path / "whole", calm, count)
        with worker(whole) as pipes:
            assert sit(pipes, calm, None) == 0
    moments = sorted(random.Random(KILLS).sample(range(2, calm.count), KILLS))
    with OpenAIServer(speaks(0.01)) as server:
        cut = run_plan(tmp_path / "cut", server, count)
        with worker(cut) as pipes:
            killed = sum(sit(pipes, server, moment) == -signal.SIGKILL for moment in moments)
            assert sit(pipes, server, None) == 0
    assert killed == KILLS
    extra = asked(server) - asked(calm)
    record_property("calls", calm.count)
    record_property("asked_again", extra.total())
    in_flight = server.most_at_once + 2  # and replies on their way into the journal
    assert extra.total() <= KILLS * in_flight
    assert not asked(calm) - asked(server)
    assert records(cut) == records(whole)
