"""The command line as a process of its own, and quickly: forked from one that has the imports.

`COMMAND` starts Python anew, for tests of a process that is limited or piped. `run` takes a fork
of a server instead: its own process, folder, output and exit code as before, but not the seconds
that importing langgraph or PyTorch takes each time; `started` does the same for a process that is
stopped or killed. Where a call sets variables of its own, or the platform has no fork, it starts
Python anew too.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-c", "from ragweave.cli import run; run()"]
LEXICAL = ("--model", "extractive?similarity=lexical")
SERVER = Path(__file__).with_name("command_server.py")


def run(
    *args: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    site: Path | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `ragweave` with the arguments given; `cwd` and `env` as for `subprocess.run`.

    Packages installed into the folder `site` are seen as if they were installed beside ours.
    """
    env = {**_python_path(site), **(env or {})} if env or not hasattr(os, "fork") else None
    if env is not None:
        return subprocess.run(
            [*COMMAND, *args],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", **env},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    with tempfile.TemporaryDirectory() as folder:
        return _SERVER.run(args, cwd, timeout, Path(folder), site)


class Started:
    """A command that is running: a process that can be sent a signal."""

    def __init__(self, folder: Path, ends: Future[subprocess.CompletedProcess[str]]) -> None:
        self._folder, self._ends = folder, ends

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ends.done()

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, once it is there."""
        pid = self._folder / "pid"
        while not pid.exists() and self.running:
            time.sleep(0.005)
        if self.running:
            os.kill(int(pid.read_text()), number)

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        return self._ends.result()


@contextlib.contextmanager
def started(*args: str, cwd: Path | None = None, timeout: float = 120) -> Iterator[Started]:
    """Start `ragweave` with the arguments given, as `run` does, and go on beside it."""
    with ThreadPoolExecutor(1) as beside, tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        process = Started(home, beside.submit(_SERVER.run, args, cwd, timeout, home))
        try:
            yield process
        finally:
            process.send_signal(signal.SIGKILL)


def _python_path(site: Path | None) -> dict[str, str]:
    if site is None:
        return {}
    rest = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(site), rest]))}


class _Server:
    """A process that imported the command line and forks for every call."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(
        self,
        args: tuple[str, ...],
        cwd: Path | None,
        timeout: float,
        folder: Path,
        site: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        with self._lock:
            asked = {
                "args": args,
                "cwd": str(cwd or Path.cwd()),
                "env": {**os.environ, "COLUMNS": "200", **_python_path(site)},
                "folder": str(folder),
                "site": str(site or ""),
            }
            code = self._ask(json.dumps(asked).encode(), timeout)
            told = [(folder / name).read_bytes() for name in ("stdout", "stderr")]
        out, err = (one.decode("utf-8").replace("\r\n", "\n") for one in told)
        return subprocess.CompletedProcess(["ragweave", *args], code, out, err)

    def _ask(self, asked: bytes, timeout: float) -> int:
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(asked + b"\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], timeout)
        if not ready:
            self.stop()
            raise subprocess.TimeoutExpired(asked.decode(), timeout)
        answer = process.stdout.readline()
        assert answer, "the server of commands has died"
        return int(answer)

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(SERVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "COLUMNS": "200"},
            start_new_session=True,
        )
        atexit.register(self.stop)

    def stop(self) -> None:
        """End the server and what it still runs."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                os.killpg(process.pid, 9)
            process.communicate()


_SERVER = _Server()
