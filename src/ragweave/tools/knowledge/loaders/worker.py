"""Reads files in a process of its own: one that hangs, crashes or fills memory loses nothing but itself.

The process reads one file after another. A request is a line of JSON: path, name, settings, seconds. The answer is a
line for each text and notice, and `end`, with the reason if the file cannot be read.
"""

import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from ragweave.errors import KnowledgeBaseError, one_line_of
from ragweave.tools.knowledge.chunking import Loaded, Remark, UnreadableError
from ragweave.tools.knowledge.loaders import load, read_here
from ragweave.tools.knowledge.settings import FileLimits, IndexSettings

EXCEEDED = "limits of a file"
"""What notices say of a file that is read again under other limits."""
_BATCH = 200
"""Texts that are made before they are sent."""
_OUT_OF_TIME, _OUT_OF_MEMORY = 1, 3
"""Exit codes; the first is faulthandler's."""
_REASONS = {_OUT_OF_TIME: "it takes too long", _OUT_OF_MEMORY: "it needs too much memory"}
_LOADED = TypeAdapter(Loaded)
_LINES = {"line": str, "remark": Remark}


class Worker:
    """Reads files within limits; the process starts with the first file that needs it. Without limits, none does."""

    def __init__(self, limits: FileLimits | None) -> None:
        self.limits = limits
        self._process: Any = None

    def load(self, path: Path, file: BinaryIO, settings: IndexSettings) -> Iterator[Loaded | str]:
        """Yield the texts of an open file, and a line for each thing that was not read, as `loaders.load`.

        `path` is how it is called. Small files of light formats are read in this process.

        Raises:
            UnreadableError: Nothing of it can be read, or not within the limits.
            KnowledgeBaseError: The process cannot be started.
        """
        size = os.fstat(file.fileno()).st_size
        if self.limits is None or read_here(path, size):
            yield from load(path, file, settings)
            return
        seconds = self.limits.max_seconds * max(1, size / 2**20)
        request = {"path": file.name, "name": path.name, "settings": asdict(settings), "seconds": seconds}
        process = self._started(self.limits)
        ended = False
        try:
            with suppress(BrokenPipeError):  # it died meanwhile
                process.stdin.write(f"{json.dumps(request)}\n")
                process.stdin.flush()
            for line in process.stdout:
                kind, value = json.loads(line)
                if ended := kind == "end":
                    break
                yield _LOADED.validate_python(value) if kind == "text" else _LINES[kind](value)
            else:
                code = process.wait()
                value = f"{_REASONS.get(code, f'its reader crashed with code {code}')} ({EXCEEDED}: {self.limits})"
        except ValueError as error:
            value = f"its reader gives what is not a text ({one_line_of(error, 100)})"
        finally:
            if not ended:
                self.close()
        if value:
            raise UnreadableError(value)

    def _started(self, limits: FileLimits) -> Any:
        if self._process:
            return self._process
        path = os.pathsep.join(filter(None, sys.path))
        # -P: in a folder of strangers' files, Python must not import them.
        self._process = process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", __name__, str(limits.max_memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
            env=os.environ | {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},  # its buffers grow with the cores
        )
        if not process.stdout or not process.stdout.readline():
            self.close()
            raise KnowledgeBaseError(
                f"{sys.executable} cannot start the process that reads files; limits=None reads them in this one"
            )
        return process

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process:
            process.kill()
            with suppress(BrokenPipeError), process:  # closes the pipes
                process.wait()


def main() -> None:
    """Read the files that the parent names, until it closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    with suppress(ImportError, ValueError, OSError):  # not on Windows; a lower limit stays
        import resource

        size = int(sys.argv[1]) * 2**20
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))  # threads map far more than they use
    requests, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    with Path(os.devnull).open("r+") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)  # libraries may print
    answers.write("ready\n")
    answers.flush()
    for line in requests:
        for answer in _answers(json.loads(line)):
            answers.write(f"{json.dumps(answer, default=str)}\n")
        answers.flush()


def _answers(request: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    reason = None
    try:
        with Path(request["path"]).open("rb") as file:
            texts = load(Path(request["name"]), file, IndexSettings(**request["settings"]))
            for loaded in _timed(texts, request["seconds"]):
                if isinstance(loaded, str):
                    yield "remark" if isinstance(loaded, Remark) else "line", loaded
                else:
                    yield "text", _LOADED.dump_python(loaded)
    except UnreadableError as error:
        reason = str(error)
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - of the file's, not of the others'
        reason = f"cannot be read ({type(error).__name__}: {error})"
    yield "end", reason


def _timed(texts: Iterator[Loaded | str], seconds: float) -> Iterator[Loaded | str]:
    """Yield texts; end the process, even from within a library, if it takes longer to make them."""
    with Path(os.devnull).open("w") as null:
        while True:
            began = time.monotonic()
            faulthandler.dump_traceback_later(max(seconds, 0.001), exit=True, file=null)
            try:
                batch = [*islice(texts, _BATCH)]
            finally:
                faulthandler.cancel_dump_traceback_later()
            seconds -= time.monotonic() - began
            yield from batch
            if len(batch) < _BATCH:
                return


if __name__ == "__main__":
    main()
