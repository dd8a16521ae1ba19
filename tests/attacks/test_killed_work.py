"""kill -9 of labelling, training, evaluation and checkpointed graphs at random moments.

What is on the disk opens and goes on, the result is an undisturbed run's, no call is paid for
twice but those in flight, and nothing is left behind.
"""

from __future__ import annotations

import contextlib
import json
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
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from tests.attacks.kill_worker import QUESTIONS
from tests.evaluation.runs.test_kill import killed_at_random_moments

ROOT = Path(__file__).parents[2]
CONCURRENCY = 4


class Worker:
    """A process that forks for each piece of work."""

    def __init__(self) -> None:
        place = os.pathsep.join([str(ROOT), *(one for one in sys.path if one)])
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("kill_worker.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": place, "HF_HUB_OFFLINE": "1"},
        )

    def begin(self, name: str, folder: Path, place: str) -> int:
        """Start a piece of work; return its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name} {folder} {place}\n")
        self._process.stdin.flush()
        return self._read()

    def wait(self) -> int:
        """Return how the work ended: an exit code, or minus a signal."""
        return self._read()

    def end(self) -> None:
        """End the process."""
        self._process.communicate(timeout=60)

    def _read(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the worker has died"
        return int(line)


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.end()


def calls(folder: Path) -> list[str]:
    """Return the prompts that were asked so far."""
    log = folder.with_suffix(".calls")
    return log.read_text().splitlines() if log.exists() else []


def files(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder, hidden ones too."""
    found = (one for one in sorted(folder.rglob("*")) if one.is_file())
    return {str(one.relative_to(folder)): one.read_bytes() for one in found}


def kill_over_and_over(
    worker: Worker, name: str, make: Callable[[Path], Path], folder: Path, moments: int
) -> None:
    """Do the work undisturbed, then killed until it has been killed so often, a folder a round."""
    rng = random.Random(f"{name} {moments}")
    killed = 0
    whole = make(folder / "whole")
    worker.begin(name, whole, "-")
    assert worker.wait() == 0
    calm = Counter(calls(whole))
    while killed < moments:
        cut, times = make(folder / f"cut{killed}"), 0
        for moment in sorted(rng.sample(range(1, calm.total()), min(5, moments - killed))):
            child = worker.begin(name, cut, "-")
            until = time.monotonic() + 60
            while len(calls(cut)) < moment and time.monotonic() < until:
                time.sleep(0.003)
            time.sleep(rng.random() * 0.01)
            kill(child)
            times += worker.wait() != 0
        worker.begin(name, cut, "-")
        assert worker.wait() == 0
        asked = Counter(calls(cut))
        assert (asked - calm).total() <= times * CONCURRENCY
        assert not calm - asked
        assert times
        killed += times
        COMPARE[name](whole, cut)


def same(made: dict[str, Any], meant: dict[str, Any]) -> None:
    """Compare files, and name those that differ rather than print them."""
    assert sorted(made) == sorted(meant)
    assert [name for name in meant if made[name] != meant[name]] == []


def same_files(whole: Path, cut: Path) -> None:
    same(files(cut), files(whole))


def threads(folder: Path) -> list[Any]:
    """Return the final states of a file of checkpoints, which must be sound and hold no orphan."""
    path = folder / "threads.sqlite"
    with sqlite3.connect(path) as state:
        assert state.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        orphans = state.execute(
            "SELECT COUNT(*) FROM writes WHERE NOT EXISTS (SELECT 1 FROM checkpoints AS c WHERE "
            "c.thread_id = writes.thread_id AND c.checkpoint_id = writes.checkpoint_id)"
        ).fetchone()
        assert orphans == (0,)
    state.close()
    with SqliteSaver.from_conn_string(str(path)) as saver:
        found = [
            saver.get_tuple({"configurable": {"thread_id": f"t{number}"}})
            for number in range(QUESTIONS)
        ]
    values = [dict(one.checkpoint["channel_values"]) for one in found if one is not None]
    assert len(values) == QUESTIONS
    kept = ("question", "answer", "status", "passages", "candidates", "usage", "retrieved")
    return [{key: str(one[key]) for key in kept} for one in values]


def same_threads(whole: Path, cut: Path) -> None:
    assert threads(cut) == threads(whole)


COMPARE: dict[str, Callable[[Path, Path], None]] = {"label": same_files, "graph": same_threads}


def questions(folder: Path) -> Path:
    folder.mkdir(parents=True)
    rows = [
        {"id": f"q{n}", "question": f"When did bridge {n} open?", "answers": [str(1900 + n)]}
        for n in range(30)
    ]
    rows += [{"id": f"x{n}", "question": f"Q{n}?", "answers": ["19"]} for n in range(10)]
    (folder / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def kill(child: int) -> None:
    """Kill a child, unless it has finished meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)


def nothing(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder


MAKE = {"label": questions, "graph": nothing}


@pytest.mark.parametrize("name", list(MAKE))
def test_work_that_asks_a_model_killed(name: str, worker: Worker, tmp_path: Path) -> None:
    kill_over_and_over(worker, name, MAKE[name], tmp_path, moments=3)


@pytest.mark.attack
@pytest.mark.parametrize("name", list(MAKE))
def test_work_that_asks_a_model_killed_often(
    name: str, worker: Worker, tmp_path: Path, trials: Callable[[int], None]
) -> None:
    kill_over_and_over(worker, name, MAKE[name], tmp_path, moments=40)
    trials(39)


def part_of(folder: Path) -> dict[str, Any]:
    """Return the files of a trained part; of its card all but the moment."""
    found: dict[str, Any] = files(folder)
    for name, data in found.items():
        if name.endswith("part.json"):
            found[name] = {k: v for k, v in json.loads(data).items() if k != "created"}
        if name.endswith("README.md"):
            found[name] = data.partition(b"```")[2]
    return found


def judged() -> Iterator[dict[str, Any]]:
    drafts = (
        ("who wrote hamlet", "william shakespeare", True),
        ("what is rome", "not sure", False),
    )
    for n in range(6):
        for question, draft, known in drafts:
            yield {"id": str(n), "question": f"{question} {n}", "draft": draft, "known": known}


def silver() -> Iterator[dict[str, Any]]:
    text = "William wrote hamlet. He was a poet. Rome is in italy."
    for n in range(12):
        yield {
            "id": str(n),
            "question": f"who wrote hamlet {n}",
            "answers": ["William"],
            "passages": [{"id": "p", "title": "poet", "text": text}],
            "spans": [{"passage_id": "p", "start": 0, "end": 21}],
        }


ROWS = {"cross-encoder": judged, "span-encoder": silver}


def kill_while_training(worker: Worker, kind: str, folder: Path, moments: int) -> None:
    base = folder / "base"
    worker.begin("base", base, "-")
    assert worker.wait() == 0
    text = "".join(json.dumps(row) + "\n" for row in ROWS[kind]())

    def make(name: str) -> Path:
        nothing(folder / name)
        (folder / name / "rows.jsonl").write_text(text)
        return folder / name

    whole = make("whole")
    worker.begin(kind, whole, str(base))
    began = time.monotonic()
    assert worker.wait() == 0
    length = time.monotonic() - began
    rng, killed, rounds = random.Random(moments), 0, 0
    while killed < moments:
        cut, times = make(f"cut{rounds}"), 0
        rounds += 1
        for _ in range(min(4, moments - killed)):
            child = worker.begin(kind, cut, str(base))
            time.sleep(length * rng.random())
            kill(child)
            times += worker.wait() != 0
        worker.begin(kind, cut, str(base))
        assert worker.wait() == 0
        same(part_of(cut), part_of(whole))
        killed += times


def test_training_killed(worker: Worker, tmp_path: Path) -> None:
    kill_while_training(worker, "span-encoder", tmp_path, moments=2)


@pytest.mark.attack
@pytest.mark.parametrize("kind", list(ROWS))
def test_training_killed_often(
    kind: str, worker: Worker, tmp_path: Path, trials: Callable[[int], None]
) -> None:
    kill_while_training(worker, kind, tmp_path, moments=20)
    trials(19)


@pytest.mark.attack
@pytest.mark.loopback
@pytest.mark.parametrize("workers", [1, 2])
def test_evaluation_killed_often(
    workers: int, tmp_path: Path, trials: Callable[[int], None]
) -> None:
    """The short form stands with the tests of runs."""
    killed_at_random_moments(tmp_path, workers=workers, kills=40)
    trials(39)
