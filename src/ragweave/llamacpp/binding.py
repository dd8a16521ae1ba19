"""llama-cpp-python and the machine it runs on.

The only module that imports `llama_cpp`: it initialises the backend once, collects llama.cpp's
log, and measures what a model needs from the machine (physical cores, free memory).
"""

from __future__ import annotations

import importlib
import itertools
import logging
import math
import os
import threading
from collections import deque
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, UnusableModelError
from ragweave.llamacpp.gguf import GGUFFacts

_LOGGER = logging.getLogger("ragweave.llamacpp")
_ERROR, _MORE = 4, 5
"""Levels of ggml's log: an error, and the continuation of the line before."""
_LOCK = threading.Lock()
_LOADED: dict[str, Any] = {}


class Log:
    """The last lines that llama.cpp logged, numbered in order of arrival."""

    def __init__(self) -> None:
        self._lines: deque[tuple[int, int, str]] = deque(maxlen=400)
        self._numbers = itertools.count()

    def take(self, level: int, text: bytes, _user: object) -> None:
        """Receive one piece of the log; llama.cpp calls it from its own threads."""
        line = text.decode("utf-8", "replace").strip()
        if not line or level == _MORE:
            return
        self._lines.append((next(self._numbers), level, line))
        # Refusals reach the caller as errors of our own, so the log stays at debug level.
        _LOGGER.debug("%s", line)

    def mark(self) -> int:
        """Return a number that is lower than those of all later lines."""
        return next(self._numbers)

    def error(self, since: int) -> str:
        """Return the first error after a mark: later ones only repeat that something failed."""
        for number, level, line in list(self._lines):
            if number > since and level == _ERROR:
                return line
        return "llama.cpp gave no reason"

    def find(self, part: str, since: int) -> str | None:
        """Return the last line after a mark that contains `part`."""
        found = [line for number, _, line in list(self._lines) if number > since and part in line]
        return found[-1] if found else None


def bind() -> Any:
    """Return the `llama_cpp` module, its backend initialised and its log led to `Log`.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        ModelError: It is installed, but its library does not load.
    """
    with _LOCK:
        if "module" not in _LOADED:
            try:
                module: Any = importlib.import_module("llama_cpp")
            except ModuleNotFoundError as error:
                raise MissingExtraError("Local GGUF models", "llamacpp") from error
            except (OSError, RuntimeError) as error:
                # A CUDA build on a machine without CUDA fails here.
                reason = " ".join(str(error).split())
                raise ModelError(f"llama-cpp-python can't load its library: {reason}") from error
            log = Log()
            callback = module.llama_log_callback(log.take)
            module.llama_log_set(callback, None)
            module.llama_backend_init()
            # The callback must outlive every model: llama.cpp keeps its address.
            _LOADED.update(module=module, log=log, callback=callback)
        return _LOADED["module"]


def log() -> Log:
    """Return the log that `bind` set up."""
    bind()
    found: Log = _LOADED["log"]
    return found


_SPARE = 256 << 20
"""Bytes for compute buffers and everything else in the process."""
_MOST_CACHED = 2 << 30
"""Bytes of prefixes in main memory, where nothing else is asked for."""
_UNMEASURED = 4 << 30
"""Bytes taken to be free where the system does not say."""


def physical_cores() -> int:
    """Return how many physical cores this process may use; at least 1."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
    logical = allowed or os.cpu_count() or 1
    listing = Path("/proc/cpuinfo")
    cores = _listed_cores(listing.read_text()) if listing.is_file() else 0
    quota = _quota()
    return max(1, min(n for n in (logical, cores or logical, quota or logical)))


def _listed_cores(text: str) -> int:
    """Count distinct (package, core) pairs of Linux's processor listing."""
    seen: set[tuple[str, str]] = set()
    package = ""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "physical id":
            package = value.strip()
        elif key.strip() == "core id":
            seen.add((package, value.strip()))
    return len(seen)


def _quota() -> int | None:
    """Return the processors that a container's limit allows, rounded up."""
    path = Path("/sys/fs/cgroup/cpu.max")
    if not path.is_file():
        return None
    limit, _, period = path.read_text().strip().partition(" ")
    return math.ceil(int(limit) / int(period)) if limit.isdigit() and period.isdigit() else None


def free_memory() -> int | None:
    """Return bytes of main memory that a new model may take, or None where unknown."""
    free: list[int] = []
    listing = Path("/proc/meminfo")
    if listing.is_file():
        lines = listing.read_text().splitlines()
        free += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file() and limit.read_text().strip().isdigit():
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free, default=None)


def needed_memory(facts: GGUFFacts, n_ctx: int) -> int:
    """Estimate the bytes that a model with a context of `n_ctx` tokens takes."""
    return facts.size + (facts.cache_bytes(n_ctx) or 0) + _SPARE


def cache_bytes(requested: int | None, *, in_memory: bool) -> int:
    """Return the bytes of main memory for prefixes: `requested` MiB, or part of what is free.

    Nothing unasked where a GPU computes them: whether copying is faster there was not measured.
    """
    if requested is not None:
        return requested << 20
    free = free_memory()
    part = (_UNMEASURED if free is None else free) // 8
    return min(part, _MOST_CACHED) if in_memory else 0


def context_length(facts: GGUFFacts, requested: int | None, *, in_memory: bool) -> int:
    """Return the context to open: the requested one, else the model's own as far as it fits.

    Args:
        facts: The model file.
        requested: Tokens requested; None leaves it to the model and the memory.
        in_memory: Whether the model lives in main memory (no layer is offloaded).

    Raises:
        UnusableModelError: The file and its cache take more memory than there is.
    """
    n_ctx = requested or facts.context or 4096
    free = free_memory() if in_memory else None
    if free is None or needed_memory(facts, n_ctx) <= free:
        return n_ctx
    per_token = max(1, facts.cache_bytes(1) or 1)
    fits = (free - needed_memory(facts, 0)) // per_token // 256 * 256
    if requested is None and fits >= 512:
        return int(fits)
    raise UnusableModelError(
        f"{facts.path.name} with n_ctx={n_ctx} needs {needed_memory(facts, n_ctx) / 1e9:.1f} GB "
        f"of memory, but only {free / 1e9:.1f} GB are free: "
        + (f"lower n_ctx to {fits} or less" if fits >= 512 else "use a smaller model")
    )
