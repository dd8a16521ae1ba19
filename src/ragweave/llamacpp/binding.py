"""llama-cpp-python and the machine it runs on.

The only module that imports `llama_cpp`: it initialises the backend once, collects llama.cpp's
log, and measures what a model needs from the machine (physical cores, free memory).
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import json
import logging
import math
import os
import sys
import threading
from collections import deque
from pathlib import Path
from typing import Any

from ragweave.errors import MissingExtraError, ModelError, RagweaveError, UnusableModelError
from ragweave.llamacpp.child import BEGAN, FAILED, leave_no_core
from ragweave.llamacpp.context_memory import attention_bytes, state_bytes
from ragweave.llamacpp.gguf import GGUFFacts
from ragweave.llamacpp.library import check_library

_LOGGER = logging.getLogger("ragweave.llamacpp")
_ERROR, _MORE = 4, 5
"""Levels of ggml's log: an error, and the continuation of the line before."""
_LOCK, _CHECKING = threading.Lock(), threading.Lock()
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
    if "module" not in _LOADED:
        with _CHECKING:
            if "module" not in _LOADED:
                check_library()
    return load()


def load() -> Any:
    """Do what `bind` does in a process that may be lost if the library ends it.

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
"""Bytes for compute buffers, but for a batch's logits, and everything else in the process."""
_LEFT = 4
"""Which part of the free memory a context that nobody asked for leaves to other models."""
USABLE = 4096
"""Tokens; a shorter context takes what is there."""
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


def free_memory(
    listing: Path = Path("/proc/meminfo"), container: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return bytes of main memory that a new model may take, or None where unknown.

    Args:
        listing: Linux's account of the machine's memory.
        container: The folder of the control group, whose limit may be lower.
    """
    free: list[int] = []
    if listing.is_file():
        lines = listing.read_text().splitlines()
        free += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    left = _left_in(container)
    return min(free if left is None else [*free, left], default=None)


def _left_in(container: Path) -> int | None:
    """Return the bytes that a container's limit leaves, or None where it has none.

    What it uses includes the files that the kernel caches for it, and drops when memory is short.
    Those that are mapped are in use, as the weights of loaded models are.
    """
    limit, used = container / "memory.max", container / "memory.current"
    if not (limit.is_file() and used.is_file() and limit.read_text().strip().isdigit()):
        return None
    parts = container / "memory.stat"
    rows = parts.read_text().splitlines() if parts.is_file() else []
    sizes = {name: int(n) for name, _, n in (row.partition(" ") for row in rows)}
    cached = sizes.get("inactive_file", 0) + sizes.get("active_file", 0)
    cached -= sizes.get("file_mapped", 0)
    most = int(limit.read_text())
    return min(most, max(0, most - int(used.read_text()) + max(0, cached)))


def in_main_memory(n_gpu_layers: int) -> bool:
    """Return whether a model lives in main memory: no layer is offloaded to a GPU.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        ModelError: It is installed, but its library does not load.
    """
    return n_gpu_layers == 0 or not bind().llama_supports_gpu_offload()


_GPUS = (1, 2)
"""`GGML_BACKEND_DEVICE_TYPE_GPU` and `_IGPU` of ggml-backend.h."""


def gpu_names() -> tuple[str, ...]:
    """Return ggml's descriptions of the GPUs, such as `NVIDIA H100 80GB HBM3`.

    Empty on Windows, where llama.cpp's library does not give access to ggml's.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        ModelError: It is installed, but its library does not load.
    """
    bind()
    # Found in libllama or what it was linked with. `llama_cpp._ggml` would load a second ggml where
    # LLAMA_CPP_LIB_PATH names another library.
    lib: Any = getattr(importlib.import_module("llama_cpp.llama_cpp"), "_lib", None)
    if not hasattr(lib, "ggml_backend_dev_count"):
        return ()
    # Looked up by index, a function is a new object: types set here are nobody else's.
    count, get = lib["ggml_backend_dev_count"], lib["ggml_backend_dev_get"]
    kind, name = lib["ggml_backend_dev_type"], lib["ggml_backend_dev_description"]
    count.restype, get.restype, name.restype = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
    get.argtypes = [ctypes.c_size_t]
    kind.argtypes = name.argtypes = [ctypes.c_void_p]
    devices = [get(number) for number in range(count())]
    return tuple(name(one).decode("utf-8", "replace") for one in devices if kind(one) in _GPUS)


def needed_memory(facts: GGUFFacts, n_ctx: int, n_sequences: int) -> int:
    """Estimate the bytes that a model with a context of `n_ctx` tokens takes.

    Without the logits of a batch (`logits_memory`), of which most calls want few.

    Args:
        facts: The model file.
        n_ctx: Tokens of all sequences together.
        n_sequences: Sequences that the context is opened for: a recurrent model holds a state of
            fixed size for each.
    """
    cache = n_ctx * (attention_bytes(facts) or 0) + n_sequences * state_bytes(facts)
    return facts.size + cache + _SPARE


def logits_memory(facts: GGUFFacts, n_batch: int) -> int:
    """Return the bytes of the logits of a whole batch, for which llama.cpp holds room."""
    return 4 * n_batch * (facts.vocabulary or 0)


def cache_bytes(requested: int | None, *, in_memory: bool) -> int:
    """Return the bytes of main memory for prefixes: `requested` MiB, or part of what is free.

    Nothing unasked where a GPU computes them: whether copying is faster there was not measured.
    """
    if requested is not None:
        return requested << 20
    free = free_memory()
    part = (_UNMEASURED if free is None else free) // 8
    return min(part, _MOST_CACHED) if in_memory else 0


def context_length(
    facts: GGUFFacts, requested: int | None, n_batch: int, n_sequences: int, *, in_memory: bool
) -> int:
    """Return the context to open: the requested one, else the model's own as far as it fits.

    One that was not requested leaves a quarter of the free memory to other models, and room for
    the logits of a whole batch, unless it would be shorter than 4,096 tokens then.

    Args:
        facts: The model file.
        requested: Tokens requested; None leaves it to the model and the memory.
        n_batch: Tokens computed in one step.
        n_sequences: Sequences that the context is opened for.
        in_memory: Whether the model lives in main memory (no layer is offloaded).

    Raises:
        UnusableModelError: The file and its cache take more memory than there is.
    """
    n_ctx = requested or facts.context or 4096
    free = free_memory() if in_memory else None
    if free is None:
        return n_ctx
    fits = most = _fitting(facts, free, n_sequences)
    if requested is None:
        left = free // _LEFT + logits_memory(facts, n_batch)
        most = max(_fitting(facts, free - left, n_sequences), min(fits, USABLE))
    if n_ctx <= most:
        return n_ctx
    if requested is None and most >= 512:
        return _whole(most)
    needed = needed_memory(facts, n_ctx, n_sequences)
    raise UnusableModelError(
        f"{facts.path.name} with n_ctx={n_ctx} needs {needed / 1e9:.1f} GB of memory, but only "
        f"{free / 1e9:.1f} GB are free: "
        + (f"lower n_ctx to {_whole(fits)} or less" if fits >= 512 else "use a smaller model")
        + (", lower n_parallel" if state_bytes(facts) and n_sequences > 1 else "")
        + ", or lower the n_ctx of another model that is loaded"
    )


def _fitting(facts: GGUFFacts, free: int, n_sequences: int) -> int:
    """Return the longest context for which `free` bytes are enough; below 0: none is."""
    per_token = max(1, attention_bytes(facts) or 1)
    return (free - needed_memory(facts, 0, n_sequences)) // per_token


def _whole(n_ctx: int) -> int:
    """Round a context down as llama.cpp pads one."""
    return n_ctx // 256 * 256


def _main() -> int:
    """Load the library and use it, as a child process of `check_library`; return the exit code."""
    leave_no_core()
    print(BEGAN, flush=True)  # noqa: T201
    try:
        info = load().llama_print_system_info().decode("utf-8", "replace")
    except RagweaveError as error:
        print(json.dumps({"error": str(error)}))  # noqa: T201
        return FAILED
    print(json.dumps({"info": info}))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(_main())
