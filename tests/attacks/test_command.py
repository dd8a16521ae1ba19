"""The command line in bad places: closed pipes, no home, no rights, ASCII, signals, a full disk."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import command
from tests.command import COMMAND, LEXICAL, PYTHON
from tests.openai_server import OpenAIServer, Reply

from ragweave.cli.main import _to_screen
from ragweave.cli.record import read_run

SRC = str(Path(__file__).parents[2] / "src")
PLACES = os.pathsep.join([SRC, *(one for one in sys.path if one)])
ENVIRONMENT = {**os.environ, "PYTHONPATH": PLACES}
NOBODY = 12_345
"""A user without a home, and without rights in our folders."""


@pytest.fixture(scope="module")
def kb() -> Iterator[Path]:
    """A folder that others may read: pytest takes that right from its own at each start."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "docs").mkdir()
        (folder / "docs" / "a.txt").write_text("The bridge of Málaga → 中 opened in 1932.")
        made = command.run("index", "docs", "--kb", "kb", "--embedding", "none", cwd=folder)
        assert made.returncode == 0, made.stderr
        yield folder


ASK = ("ask", "When did the bridge of Málaga open?", "--kb", "kb", "--method", "concat", *LEXICAL)


def run(*args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    given = {"env": ENVIRONMENT, "capture_output": True, "timeout": 120, **more}
    return subprocess.run([*COMMAND, *args], text=True, **given)


def one_line(done: subprocess.CompletedProcess[str], code: int) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") <= 1, done.stderr


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(("methods",), id="methods"),
        pytest.param((*ASK, "--trace"), id="ask", marks=pytest.mark.attack),
    ],
)
def test_a_closed_pipe_is_no_error(args: tuple[str, ...], kb: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        done = run(*args, cwd=kb, stdout=pipe, stderr=subprocess.PIPE, capture_output=False)
    one_line(done, 0)
    assert done.stderr == ""


def test_a_closed_pipe_keeps_no_file_from_being_written(kb: Path, tmp_path: Path) -> None:
    row = {"question": "When did it open?", "answers": ["1932"], "passages": [{"text": "1932."}]}
    (tmp_path / "qa.jsonl").write_text(json.dumps(row) + "\n")
    evaluated = ("eval", "jsonl:qa.jsonl", "--methods", "direct", "--out", "run", *LEXICAL)
    study = ("study", "k", "jsonl:qa.jsonl", "--out", "study", "--values", "1", *LEXICAL)
    for args in (evaluated, ("report", "run", "--no-plots"), study):
        reading, writing = os.pipe()
        os.close(reading)
        with os.fdopen(writing, "w") as pipe:
            done = run(
                *args, cwd=tmp_path, stdout=pipe, stderr=subprocess.PIPE, capture_output=False
            )
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        assert args[0] == "eval" or "wrote to" in done.stderr
    assert (tmp_path / "run" / "report" / "report.md").is_file()
    assert (tmp_path / "study" / "report" / "report.md").is_file()


def test_what_python_was_told_not_to_buffer_is_not() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "wb", buffering=0) as raw:
        stream = io.TextIOWrapper(raw, write_through=True)
        screen = _to_screen(stream)
        screen.write("now")
        assert os.read(reading, 100) == b"now"
        screen.close()
        stream.detach()
    os.close(reading)


def test_a_terminal_of_ascii_and_forty_columns_is_enough(kb: Path) -> None:
    plain = {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "COLUMNS": "40"}
    done = run(*ASK, "--trace", cwd=kb, env={**ENVIRONMENT, **plain, "RAGWEAVE_HISTORY": "off"})
    one_line(done, 0)
    assert "1932" in done.stdout and "?" in done.stdout


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("setpriv"), reason="only root may become another user"
)
def test_a_user_without_home_and_rights(
    kb: Path, trials: Callable[[int], None], request: pytest.FixtureRequest
) -> None:
    homeless = {
        name: value
        for name, value in ENVIRONMENT.items()
        if name not in ("HOME", "RAGWEAVE_CACHE", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    }
    before = sorted(kb.rglob("*"))

    def as_nobody(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["setpriv", f"--reuid={NOBODY}", "--clear-groups", *command],
            cwd=kb,
            env=homeless,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def ask(*args: str) -> subprocess.CompletedProcess[str]:
        return as_nobody(*PYTHON, *args)

    if as_nobody(sys.executable, "-I", "-c", "").returncode:
        pytest.skip("this Python lies where another user may not read it")
    one_line(ask(*ASK), 0)
    refused = [
        (*ASK, "--trace-file", "t.json"),
        ("index", "docs", "--kb", "kb"),
        ("index", "docs", "--kb", "other", "--embedding", "none"),
    ]
    for args in refused if request.config.getoption("--long") else refused[:1]:
        one_line(ask(*args), 2)
    assert sorted(kb.rglob("*")) == before
    trials(len(refused))


@contextmanager
def at_work(kb: Path, server: OpenAIServer) -> Iterator[command.Started]:
    """Start a question that waits for its model."""
    model = ("--model", f"openai:m?base_url={server.base_url}&max_retries=0")
    asked = ("ask", "When did the bridge open?", "--kb", "kb", "--method", "concat", *model)
    with command.started(*asked, "--trace-file", "t.json", cwd=kb) as one:
        until = time.monotonic() + 100
        while not server.count and one.running and time.monotonic() < until:
            time.sleep(0.01)
        yield one


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("signals", "code"),
    [((signal.SIGTERM,), 143), ((signal.SIGINT, signal.SIGINT), 130)],
    ids=["SIGTERM", "two Ctrl-C"],
)
def test_a_signal_is_one_line(signals: tuple[int, ...], code: int, kb: Path) -> None:
    pytest.importorskip("langchain_openai")
    with (
        OpenAIServer(lambda _: Reply("1932", delay=20)) as server,
        at_work(kb, server) as asking,
    ):
        for one in signals:
            asking.send_signal(one)
            time.sleep(0.02)
        ended = asking.ended()
    assert ended.returncode == code, ended.stderr
    assert ended.stderr == "ragweave: stopped\n"
    if (kb / "t.json").exists():  # what had been asked by then, whole
        assert read_run(kb / "t.json")["question"] == "When did the bridge open?"
    assert not list(kb.glob(".t.json*"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    try:
        made = subprocess.run(mount, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("this system has no mount")
    if made.returncode:
        pytest.skip("only root may mount a small disk")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_is_one_line(small_disk: Path, kb: Path, trials: Callable[[int], None]) -> None:
    """The knowledge base needs more than there is; then nothing at all is left."""
    (small_disk / "docs").mkdir()
    words = " ".join(f"word{number}" for number in range(9_000))
    (small_disk / "docs" / "a.txt").write_text(words)
    before = sorted(small_disk.rglob("*"))
    done = command.run("index", "docs", "--kb", "kb", "--embedding", "none", cwd=small_disk)
    one_line(done, 2)
    assert "No space left" in done.stderr
    assert [one for one in sorted(small_disk.rglob("*")) if "kb" not in one.parts] == before
    with (small_disk / "rest").open("wb", buffering=0) as rest:
        try:
            while rest.write(b"x" * 1024):
                pass
        except OSError:
            pass
    ask = ("ask", "When?", "--method", "direct", *LEXICAL)
    for args in (
        (*ASK[:2], "--kb", str(kb / "kb"), *ASK[4:], "--trace-file", "t.json"),
        ("draw", "concat", "--svg", "d.svg"),
        (*ask, "--trace-file", "t.json"),
    ):
        done = command.run(*args, cwd=small_disk)
        assert done.returncode == 2, done.stderr
        assert done.stderr.splitlines()[-1].startswith("ragweave: cannot write")
        assert "Traceback" not in done.stderr
    assert not {"t.json", "d.svg"} & {one.name for one in small_disk.iterdir()}
    assert not [one for one in small_disk.iterdir() if one.name.startswith(".")]
    trials(3)
