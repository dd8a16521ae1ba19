"""Whether llama.cpp's library loads on this processor: tried in a child process first.

Compiled for another processor, it ends the process with an illegal instruction as soon as it fills
its tables (`ggml_cpu_init`), before any model is loaded. That it loads is cached by its build and
the processor, so that later starts need no trial.
"""

from __future__ import annotations

from pathlib import Path

from ragweave.errors import ModelError
from ragweave.llamacpp.child import is_crash, run_child
from ragweave.llamacpp.verdicts import keep, library_file

_SECONDS = 120.0
REBUILD = (
    "pip install --force-reinstall --no-cache-dir --no-deps --no-binary llama-cpp-python "
    "llama-cpp-python"
)
"""How to compile llama-cpp-python for this processor."""


def check_library() -> None:
    """Load the library in a child process, unless that has gone well before.

    Raises:
        ModelError: The library ends the process that loads it.
    """
    path = library_file()
    if path is None or _is_cached(path):
        return
    ending = run_child("ragweave.llamacpp.binding", {}, _SECONDS)
    if ending.result is not None and not ending.code:
        keep(path, {"loads": True})
    if ending.began and is_crash(ending.failure):
        raise ModelError(
            f"llama-cpp-python's library ends a process that loads it with {ending.failure}: it "
            f"was compiled for another processor; compile it for this one: {REBUILD}"
        )


def _is_cached(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the folder may not be searched; Python 3.14 says False itself
        return False
