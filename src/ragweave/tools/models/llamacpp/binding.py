"""The one place that imports llama-cpp-python, and that listens to llama.cpp's log."""

from __future__ import annotations

import importlib
import itertools
import logging
import threading
from collections import deque
from typing import Any

from ragweave.errors import MissingExtraError, ModelError

_LOGGER = logging.getLogger("ragweave.llamacpp")
_ERROR, _MORE = 4, 5
"""Levels of ggml's log: an error, and a piece that goes on with the line before."""
_LOCK = threading.Lock()
_KEPT: dict[str, Any] = {}


class Log:
    """The last lines that llama.cpp logged, numbered as they came."""

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
        """Return a number that is lower than those of the lines to come."""
        return next(self._numbers)

    def error(self, since: int) -> str:
        """Return the first error after a mark: later ones only repeat that something failed."""
        for number, level, line in list(self._lines):
            if number > since and level == _ERROR:
                return line
        return "llama.cpp gave no reason"

    def find(self, part: str, since: int) -> str | None:
        """Return the last line after a mark that holds `part`."""
        found = [line for number, _, line in list(self._lines) if number > since and part in line]
        return found[-1] if found else None


def bind() -> Any:
    """Return the `llama_cpp` module, its backend initialised and its log led to `Log`.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        ModelError: It is installed, but its library does not load.
    """
    with _LOCK:
        if "module" not in _KEPT:
            try:
                module: Any = importlib.import_module("llama_cpp")
            except ModuleNotFoundError as error:
                raise MissingExtraError("Local GGUF models", "llamacpp") from error
            except (OSError, RuntimeError) as error:
                # A CUDA build on a machine without CUDA ends here.
                reason = " ".join(str(error).split())
                raise ModelError(f"llama-cpp-python can't load its library: {reason}") from error
            log = Log()
            callback = module.llama_log_callback(log.take)
            module.llama_log_set(callback, None)
            module.llama_backend_init()
            # The callback must outlive every model: llama.cpp keeps its address.
            _KEPT.update(module=module, log=log, callback=callback)
        return _KEPT["module"]


def log() -> Log:
    """Return the log that `bind` set up."""
    bind()
    found: Log = _KEPT["log"]
    return found
