"""A child process for what may end the process: a crash ends the child alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ragweave

BEGAN = "began"
"""First line of a child that got as far as its task."""
FAILED = 3
"""Exit code of a child that reports an error of its task."""
_CRASHES = {"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT"}


@dataclass(frozen=True)
class Ending:
    """How a child process ended."""

    failure: str = ""
    """How it failed ("SIGSEGV", "a timeout after 120 s"); "" where it ended normally."""
    code: int = 0
    """Exit code of one that ended normally: 0 or `FAILED`."""
    result: Mapping[str, Any] | None = None
    """The JSON object of its last line of output."""
    began: bool = True
    """Whether it got as far as its task; else its failure says nothing of that."""


def run_child(module: str, job: Mapping[str, Any], seconds: float) -> Ending:
    """Run a module of ours with one JSON argument in a child process.

    Args:
        module: Its name. It prints `BEGAN` before its task, and a JSON object at its end.
        job: The argument.
        seconds: Most seconds that the child may take.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return Ending("no Python interpreter to run it with", began=False)
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, our own module
            _command(module, job),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            stdin=subprocess.DEVNULL,
            env=_environment(),
        )
    except subprocess.TimeoutExpired:
        return Ending(f"a timeout after {seconds:.0f} s")
    except OSError as error:
        return Ending(f"{error.strerror or error} at its start", began=False)
    return _ending(done.returncode, done.stdout)


def is_crash(failure: str) -> bool:
    """Return whether a failure would happen again; a child killed from outside does not count."""
    return failure in _CRASHES or failure.startswith("exit code")


def leave_no_core() -> None:
    """Keep a crash of this process from leaving a core file behind."""
    try:
        import resource
    except ImportError:  # Windows has neither the module nor such files
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _command(module: str, job: Mapping[str, Any]) -> list[str]:
    # -P: a file in the caller's folder must not shadow a module.
    return [sys.executable, "-P", "-m", module, json.dumps(job)]


def _environment() -> dict[str, str]:
    """Return the child's environment, in which it imports the same ragweave."""
    home = str(Path(ragweave.__file__).parents[1])
    paths = [home, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    path = os.pathsep.join(filter(None, dict.fromkeys(paths)))
    # ggml would start a debugger to show where it aborted.
    return {**os.environ, "PYTHONPATH": path, "GGML_NO_BACKTRACE": "1"}


def _ending(code: int, output: str) -> Ending:
    lines = output.strip().splitlines()
    # With 1 Python ends on an exception, such as MemoryError: that says nothing of the task either.
    began = BEGAN in lines and code != 1
    if code < 0:
        try:
            return Ending(signal.Signals(-code).name, began=began)
        except ValueError:
            return Ending(f"signal {-code}", began=began)
    result: Any = None
    with suppress(ValueError):
        result = json.loads(lines[-1]) if lines else None
    if code in (0, FAILED) and isinstance(result, dict):
        return Ending(code=code, result=result, began=began)
    return Ending(f"exit code {code}", began=began)
