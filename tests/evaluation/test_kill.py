"""A run that is killed at random moments and resumed: no reply that was stored is paid for again.

A call may be made twice only if its reply was not stored yet when the run was killed, so that what a kill loses is at
most what can be under way: 8 questions of 3 calls. The server is a real one, and counts.
"""

import hashlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.evaluation.conftest import Questions
from tests.openai_server import OpenAIServer, Reply

from ragweave.evaluation.folder import read_results

pytestmark = [pytest.mark.loopback, pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")]

_UNDER_WAY = 24


@dataclass
class Killed:
    """A run as a child process, over a server that takes its time."""

    server: OpenAIServer
    data: str
    folder: Path
    lost: dict[str, list[int]] = field(default_factory=lambda: {"SIGKILL": [], "SIGINT": []})
    """Calls whose replies were not stored, for each kill."""
    stored: int = 0

    @property
    def command(self) -> list[str]:
        model = f"openai:m?base_url={self.server.base_url}"
        return [
            sys.executable,
            str(Path(__file__).with_name("killed_run.py")),
            self.data,
            model,
            str(self.folder),
            "pf_concat",
        ]

    def kill(self, how: signal.Signals, after: float) -> None:
        """Start the run, kill it some seconds after its first call, and count what was lost."""
        before = self.server.count
        child = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.server.count == before and child.poll() is None:
            time.sleep(0.02)
        time.sleep(after)
        child.send_signal(how)
        child.wait()
        time.sleep(0.3)
        rows, _ = self.replies()
        self.lost[how.name].append(self.server.count - before - (rows - self.stored))
        self.stored = rows

    def replies(self) -> tuple[int, int]:
        """Return how many replies are stored, and for how many calls."""
        with closing(sqlite3.connect(self.folder / "replies.sqlite")) as file:
            counts: tuple[int, int] = file.execute("SELECT count(*), count(DISTINCT key) FROM replies").fetchone()
        return counts

    def twice(self) -> int:
        """Return how many calls were made more than once."""
        bodies = (
            hashlib.sha256(json.dumps(request.body, sort_keys=True).encode()).digest()
            for request in self.server.requests
        )
        return sum(times - 1 for times in Counter(bodies).values())


def reply_to(body: dict[str, object]) -> Reply:
    """Answer each prompt by its digest, so that no two have the same reply."""
    return Reply(hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:6], (100, 10), delay=0.1)


def check(killed: Killed, count: int) -> None:
    end = subprocess.run(killed.command, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr
    rows, calls = killed.replies()
    assert rows == calls == count * 4  # no reply was paid for twice after it was stored
    assert killed.twice() == sum(map(sum, killed.lost.values()))
    assert max(killed.lost["SIGKILL"]) <= _UNDER_WAY
    lines = (killed.folder / "results.jsonl").read_text().splitlines()
    assert len(lines) == len({*map(str, (record["id"] for record in read_results(killed.folder)))}) == count


def test_a_killed_run_pays_no_call_twice(tmp_path: Path, questions: Questions) -> None:
    with OpenAIServer(reply_to) as server:
        killed = Killed(server, questions(40), tmp_path / "run")
        for how, after in ((signal.SIGKILL, 0.2), (signal.SIGINT, 0.3)):
            killed.kill(how, after)
        assert sum(killed.lost["SIGINT"]) == 0  # Ctrl-C waits for the calls under way
        check(killed, 40)


@pytest.mark.nightly
def test_sixty_kills(tmp_path: Path, questions: Questions) -> None:
    drawn = random.Random(1)
    with OpenAIServer(reply_to) as server:
        killed = Killed(server, questions(900), tmp_path / "run")
        for number in range(60):
            killed.kill(signal.SIGKILL if number % 3 else signal.SIGINT, drawn.uniform(0, 2))
        check(killed, 900)
        lost = {
            name: f"{sum(calls) / len(calls):.1f} on average, {max(calls)} at most"
            for name, calls in killed.lost.items()
        }
        print(f"{server.count} calls, {killed.replies()} replies and calls; lost a kill: {lost}")  # noqa: T201 - the count is the result
