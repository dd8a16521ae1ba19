"""Commands as processes of their own, and quickly: forked from one with the imports.

`COMMAND` is the start of a command line for `subprocess`: its own process, folder, variables,
limits, output and exit code as if Python started, but not the seconds that importing langgraph or
PyTorch takes each time (see `fork_server.py`). `run` and `started` are what most tests need of it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from filelock import FileLock

from tests.fork_client import at_start, own_python, stand_in

Run = Callable[..., subprocess.CompletedProcess[str]]
LEXICAL = ("--model", "extractive?similarity=lexical")
_HERE = Path(__file__).parent
_SHARED = os.environ.get("PYTEST_XDIST_TESTRUNUID")
_OWN = Path(tempfile.gettempdir(), f"ragweave-forks-{_SHARED or os.getpid()}")
_FOLDER = Path(os.environ.setdefault("RAGWEAVE_FORKS", str(_OWN)))
_ADDRESS = _FOLDER / "door"


def _can_fork() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):  # not Linux, or an old one
        return False
    return True


_FORKS = _can_fork()


def python(target: str) -> list[str]:
    """Return the start of a command line that calls a function, `module:name`, in its own process."""
    return stand_in(str(_ADDRESS), target) if _FORKS else own_python(target)


COMMAND = python("ragweave.cli:run")
CODE = python("tests.fork_server:execute")
"""Stands for `python -c`."""
PYTHON = own_python("ragweave.cli:run")
"""The same by a Python of its own."""


def process_of(stand_in: int, patience: float = 60) -> int:
    """Return the process that one started by `python` stands for; itself where it is no stand-in."""
    told = Path(f"{_ADDRESS}.{stand_in}")
    line = Path(f"/proc/{stand_in}/cmdline")
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if told.exists():
            return int(told.read_text())
        if not line.exists() or b"fork_client" not in line.read_bytes():
            break
        time.sleep(0.005)
    return stand_in


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
    return subprocess.run(
        [*COMMAND, *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", **_python_path(site), **(env or {})},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=timeout,
        check=False,
    )


class Started:
    """A command that is running: a process that can be sent a signal."""

    def __init__(self, process: subprocess.Popen[str], timeout: float) -> None:
        self._process, self._timeout = process, timeout

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, once it is there."""
        with contextlib.suppress(ProcessLookupError):
            if self.running:
                os.kill(process_of(self._process.pid), number)

    def ended(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end."""
        out, err = self._process.communicate(timeout=self._timeout)
        return subprocess.CompletedProcess(self._process.args, self._process.returncode, out, err)


@contextlib.contextmanager
def started(*args: str, cwd: Path | None = None, timeout: float = 120) -> Iterator[Started]:
    """Start `ragweave` with the arguments given, as `run` does, and go on beside it."""
    with subprocess.Popen(
        [*COMMAND, *args],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        one = Started(process, timeout)
        try:
            yield one
        finally:
            one.send_signal(9)


def _python_path(site: Path | None) -> dict[str, str]:
    if site is None:
        return {}
    rest = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(site), rest]))}


def _serve() -> None:
    """Start the server of forks, unless another of this run's processes has; it ends with this one."""
    _FOLDER.mkdir(mode=0o755, exist_ok=True)
    with FileLock(_FOLDER / "lock"):
        facts = Path(f"{_ADDRESS}.json")
        if facts.exists():
            return
        server = subprocess.Popen(
            [sys.executable, str(_HERE / "fork_server.py"), str(_ADDRESS)] + (["eager"] if _SHARED else []),
            stdin=subprocess.PIPE,
            cwd=_HERE.parent,
            start_new_session=True,
        )
        facts.write_text(json.dumps({"uid": os.getuid(), "env": at_start(dict(os.environ))}))
    atexit.register(_end, server)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.communicate()
    shutil.rmtree(_FOLDER, ignore_errors=True)


if _FORKS:
    _serve()
