"""The command line as a process of its own, and quickly: forked from one that has the imports.

`COMMAND` starts Python anew, for tests of a process that is killed, stopped or limited. `run`
takes a fork of a server instead: its own process, folder, output and exit code as before, but not
the seconds that importing langgraph or PyTorch takes each time. Where a call sets variables of
its own, or the platform has no fork, it starts Python anew too.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]
COMMAND = [sys.executable, "-c", "from ragweave.cli import run; run()"]
LEXICAL = ("--model", "extractive?similarity=lexical")
SERVER = Path(__file__).with_name("command_server.py")


def run(
    *args: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `ragweave` with the arguments given; `cwd` and `env` as for `subprocess.run`."""
    if env or not hasattr(os, "fork"):
        return subprocess.run(
            [*COMMAND, *args],
            cwd=cwd,
            env={**os.environ, "COLUMNS": "200", **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    return _SERVER.run(args, cwd, timeout)


class _Server:
    """A process that imported the command line and forks for every call."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(
        self, args: tuple[str, ...], cwd: Path | None, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        with self._lock, tempfile.TemporaryDirectory() as folder:
            asked = {
                "args": args,
                "cwd": str(cwd or Path.cwd()),
                "env": {**os.environ, "COLUMNS": "200"},
                "folder": folder,
            }
            code = self._ask(json.dumps(asked).encode(), timeout)
            told = [(Path(folder) / name).read_bytes() for name in ("stdout", "stderr")]
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
