"""Forks a `ragweave` for every line on standard input; see `tests/command.py`.

The imports of the command line's start are made at once, those of heavy packages as soon as one
command has needed them. The child leaves the loop and runs the command as a script would, so that
it ends as an interpreter ends: exit handlers, threads, a traceback for what nothing caught.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

USUAL = ("ragweave.cli.main", "numpy", "bm25s", "sentencex", "langgraph.graph")
HEAVY = (
    "langchain_openai",
    "matplotlib.pyplot",
    "torch",
    "transformers",
    "datasets",
    "sentence_transformers",
    "peft",
    "trl",
)


def load(names: Iterable[str]) -> None:
    """Import what is installed of these."""
    for name in names:
        if name not in sys.modules:
            with suppress(ImportError):
                importlib.import_module(name)


def serve() -> dict[str, Any]:
    """Fork for every line that is asked; in a child, return what was asked."""
    asked, told = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    load(USUAL)
    with os.fdopen(asked, "rb") as lines:
        for line in lines:
            request: dict[str, Any] = json.loads(line)
            gc.freeze()
            child = os.fork()
            if child == 0:
                os.close(told)
                os.close(nothing)
                return request
            _, status = os.waitpid(child, 0)
            needed = Path(request["folder"], "needed")
            names = needed.read_text().split() if needed.exists() else []
            os.write(told, f"{os.waitstatus_to_exitcode(status)}\n".encode())
            load(names)
    os._exit(0)


def become(request: dict[str, Any]) -> None:
    """Take the folder, the variables, the arguments and the output that were asked for."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        file = os.open(f"{request['folder']}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = ""
    if request["site"]:
        sys.path.insert(1, request["site"])
    sys.argv = ["-c", *request["args"]]
    pid = Path(request["folder"], "pid")
    pid.with_suffix(".new").write_text(str(os.getpid()))
    pid.with_suffix(".new").rename(pid)
    atexit.register(say_what_was_needed, Path(request["folder"], "needed"), set(sys.modules))


def say_what_was_needed(file: Path, before: set[str]) -> None:
    """Write down the heavy packages that the command imported, for the calls to come."""
    file.write_text("\n".join(one for one in HEAVY if one in sys.modules and one not in before))


if __name__ == "__main__":
    become(serve())
    from ragweave.cli import run

    run()
