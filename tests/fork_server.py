"""Forks a process for every client (`fork_client.py`), from one that has the imports.

What the command line needs at its start is imported at once, every other installed module as soon
as one process has needed it, and the heavy ones while nothing else is to be done. A forked process
takes its client's folder, variables, limits and open files, and ends as an interpreter ends: exit
handlers, threads, a traceback for what nothing caught. It is killed where its client is.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

USUAL = ("ragweave.cli.main", "numpy", "bm25s", "sentencex", "langgraph.graph", "ragweave.evaluation")
HEAVY = (
    *("langchain_openai", "chromadb", "matplotlib.pyplot"),
    *("torch", "transformers", "datasets", "sentence_transformers", "peft", "trl"),
)
THREADS = frozenset({"magika", "markitdown", "onnxruntime"})
"""Packages whose import starts threads, which a fork doesn't take with it."""
LISTS = frozenset({"ragweave.serving.studio"})
"""Modules whose import lists what is registered, a test's own package included."""
INSTALLED = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[1] / "src"))
PULSE = 0.05
MOST_FILES = 16


def load(names: Iterable[str]) -> None:
    """Import these; what can't be imported alone is left to the processes."""
    for name in names:
        if not (name in sys.modules or name in LISTS or name.partition(".")[0] in THREADS):
            with suppress(Exception):
                importlib.import_module(name)


class Server:
    """Waits for clients and for the ends of their processes."""

    def __init__(self, address: str, *, eager: bool) -> None:
        self._folder = Path(address).parent
        self._door = socket.socket(socket.AF_UNIX)
        self._events = selectors.DefaultSelector()
        self._later = list(HEAVY) if eager else []
        load(USUAL)
        self._door.bind(f"{address}.new")
        self._door.listen(64)
        Path(f"{address}.new").rename(address)
        self._events.register(self._door, selectors.EVENT_READ)
        self._events.register(0, selectors.EVENT_READ)

    def serve(self) -> Callable[[], None]:
        """Serve until the standard input ends; in a fork, return what it is to do."""
        while True:
            for key, _ in self._events.select(PULSE if self._later else None):
                if key.fileobj == 0:
                    os._exit(0)
                if key.fileobj is self._door:
                    if (work := self._fork()) is not None:
                        return work
                elif isinstance(key.data, int):
                    self._kill(key.data)
                else:
                    self._tell(key.fd, *key.data)
                break
            else:
                load(self._later[:1])
                del self._later[:1]

    def _fork(self) -> Callable[[], None] | None:
        client, _ = self._door.accept()
        request, files = received(client)
        if request is None:
            client.close()
            for one in files:
                os.close(one)
            return None
        gc.freeze()
        child = os.fork()
        if child == 0:
            for key in list(self._events.get_map().values()):
                key.fileobj.close() if isinstance(key.fileobj, socket.socket) else os.close(key.fd)
            self._events.close()
            client.close()
            become(request, files, self._folder / f"{os.getpid()}.needed")
            return target(request["target"])
        for one in files:
            os.close(one)
        with suppress(OSError):  # a client that is gone meanwhile is noticed below
            client.sendall(f"{child}\n".encode())
        handle = os.pidfd_open(child)
        self._events.register(handle, selectors.EVENT_READ, (child, client))
        self._events.register(client, selectors.EVENT_READ, child)
        return None

    def _kill(self, child: int) -> None:
        """Kill the process of a client that is gone; its end is told to nobody."""
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        for key in list(self._events.get_map().values()):
            if key.data == child:
                self._events.unregister(key.fileobj)

    def _tell(self, handle: int, child: int, client: socket.socket) -> None:
        """Tell a client how its process ended."""
        _, status = os.waitpid(child, 0)
        self._events.unregister(handle)
        os.close(handle)
        with suppress(KeyError):
            self._events.unregister(client)
        with suppress(OSError):
            client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        client.close()
        needed = self._folder / f"{child}.needed"
        if needed.exists():
            load(needed.read_text().split())
            needed.unlink()


def received(client: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """Return a client's request and the files that came with it."""
    data, ancillary, _, _ = client.recvmsg(1 << 16, socket.CMSG_SPACE(MOST_FILES * 4))
    files = array.array("i")
    for _, _, packed in ancillary:
        files.frombytes(packed[: len(packed) - len(packed) % files.itemsize])
    more = data
    while more and not data.endswith(b"\n"):
        data += (more := client.recv(1 << 16))
    return (json.loads(data) if data.endswith(b"\n") else None), list(files)


def become(request: dict[str, Any], files: list[int], needed: Path) -> None:
    """Take what the client has: session, limits, open files, variables, folder, arguments."""
    if request["session"]:
        os.setsid()
    kept = [os.dup2(one, 100 + number) for number, one in enumerate(files)]
    for one in files:
        os.close(one)
    for one, number in zip(kept, request["files"], strict=True):
        os.dup2(one, number)
        os.close(one)
    sys.stdin = sys.__stdin__ = stream(0, "r", "strict")
    sys.stdout = sys.__stdout__ = stream(1, "w", "strict")
    sys.stderr = sys.__stderr__ = stream(2, "w", "backslashreplace")
    for name, limits in request["limits"].items():
        resource.setrlimit(int(name), tuple(limits))
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    sys.path[0] = ""
    sys.path[1:1] = [one for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.argv = ["-c", *request["args"]]
    if "huggingface_hub.constants" in sys.modules:
        offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
        sys.modules["huggingface_hub.constants"].HF_HUB_OFFLINE = offline  # type: ignore[attr-defined]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    atexit.register(say_what_was_needed, needed, set(sys.modules))


def stream(number: int, mode: str, errors: str) -> Any:
    """Return a standard stream over an open file, as Python makes it at its start; None if closed."""
    try:
        lines = number == 2 or os.isatty(number)
        return os.fdopen(number, mode, 1 if lines else -1, "utf-8", errors, closefd=False)
    except OSError:
        return None


def say_what_was_needed(file: Path, before: set[str]) -> None:
    """Write down the installed modules that a process imported, for those to come."""
    new = {name: one for name, one in sys.modules.items() if name not in before}
    origins = {name: getattr(one, "__file__", None) or "" for name, one in new.items()}
    with suppress(OSError):
        file.write_text("\n".join(name for name in new if origins[name].startswith(INSTALLED)))


def execute() -> None:
    """Run the code that is the first argument, as `python -c` does."""
    code = sys.argv.pop(1)
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


def target(name: str) -> Callable[[], None]:
    """Return the function that a text `module:name` names."""
    module, _, function = name.partition(":")
    found: Callable[[], None] = getattr(importlib.import_module(module), function)
    return found


if __name__ == "__main__":
    sys.path.insert(1, str(Path(__file__).parents[1]))
    WORK = Server(sys.argv[1], eager=sys.argv[2:] == ["eager"]).serve()
    WORK()
