"""The one place that imports llama-cpp-python, and that listens to llama.cpp's log."""

from __future__ import annotations

import importlib
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
    """The last lines that llama.cpp logged, by level."""

    def __init__(self) -> None:
        self.lines: deque[tuple[int, str]] = deque(maxlen=400)

    def take(self, level: int, text: bytes, _user: object) -> None:
        """Receive one piece of the log; llama.cpp calls it from its own threads."""
        line = text.decode("utf-8", "replace").strip()
        if not line or level == _MORE:
            return
        self.lines.append((level, line))
        # Refusals reach the caller as errors of our own, so the log stays at debug level.
        _LOGGER.debug("%s", line)

    def last_error(self) -> str:
        """Return the first error since `clear`: later ones only repeat that loading failed."""
        for level, line in self.lines:
            if level == _ERROR:
                return line
        return "llama.cpp gave no reason"

    def find(self, part: str) -> str | None:
        """Return the last line that holds `part`."""
        return next((line for _, line in reversed(self.lines) if part in line), None)

    def clear(self) -> None:
        """Forget all lines."""
        self.lines.clear()


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
