"""A model that is ready for requests from any thread or event loop."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

from ragweave.errors import RagweaveError, RunTimeoutError
from ragweave.tools.models.llamacpp.core import Core, CoreSettings
from ragweave.tools.models.llamacpp.gguf import GGUFFacts, read_gguf
from ragweave.tools.models.llamacpp.guard import extra_buffers
from ragweave.tools.models.llamacpp.job import Job, Sink
from ragweave.tools.models.llamacpp.scheduler import Scheduler

_LOGGER = logging.getLogger("ragweave.llamacpp")


class Engine:
    """A loaded model with its scheduler; frees itself with its last reference."""

    def __init__(self, path: str | Path, settings: CoreSettings | None = None) -> None:
        """Load a model file.

        Raises:
            MissingExtraError: llama-cpp-python is not installed.
            ModelError: The file is missing, damaged, of a kind that writes no text, or too large.
            UsageError: A setting is out of range.
        """
        settings = settings or CoreSettings()
        self.facts: GGUFFacts = read_gguf(path)
        extra = extra_buffers(self.facts, settings.repack, n_gpu_layers=settings.n_gpu_layers)
        core = Core(self.facts, settings, extra_buffers=extra)
        self.vocabulary = core.vocabulary
        self.n_ctx = core.n_ctx
        self.placement = core.placement
        """One line that says where the layers are, the context and the threads."""
        _LOGGER.info("%s", self.placement)
        self._scheduler = Scheduler(core, settings.n_parallel, settings.n_kept)
        self._close = weakref.finalize(self, self._scheduler.close)

    @property
    def computed(self) -> int:
        """Tokens computed so far; a shared beginning counts once."""
        return self._scheduler.decoder.computed

    @property
    def closed(self) -> bool:
        """Whether the model was freed, by `close` or by a fault of its thread."""
        return self._scheduler.closed

    def submit(self, job: Job) -> None:
        """Hand a job to the scheduler."""
        self._scheduler.submit(job)

    def close(self) -> None:
        """Free the model; requests in work fail."""
        self._close()


class Loader:
    """Loads an engine at its first use, once, and shares it between copies of a chat model."""

    def __init__(self, path: str | Path, settings: CoreSettings) -> None:
        """Remember what to load."""
        self._path, self._settings = path, settings
        self._lock = threading.Lock()
        self._engine: Engine | None = None

    def __deepcopy__(self, memo: dict[int, Any]) -> Loader:
        """Return itself: a copied chat model shares the weights."""
        return self

    def get(self) -> Engine:
        """Return the engine; a closed one is loaded again."""
        with self._lock:
            if self._engine is None or self._engine.closed:
                self._engine = Engine(self._path, self._settings)
            return self._engine

    def close(self) -> None:
        """Free the engine, if one was loaded."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()


class Inbox:
    """What a waiting thread reads a job's events from."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.sink: Sink = self._queue.put

    def events(
        self, engine: Engine, job: Job, timeout: float | None
    ) -> Generator[object, None, None]:
        """Submit a job and yield its events without end; the job is given up with the iterator.

        Raises:
            RunTimeoutError: The job took longer than `timeout` seconds.
            RagweaveError: The job failed.
        """
        engine.submit(job)
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while True:
                left = None if until is None else max(0.0, until - time.monotonic())
                yield _checked(self._queue.get(timeout=left))
        except queue.Empty as error:
            raise _late(timeout) from error
        finally:
            job.cancel()


class AsyncInbox:
    """What a waiting task reads a job's events from."""

    def __init__(self) -> None:
        """Belong to the running event loop."""
        loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[object] = asyncio.Queue()

        def sink(event: object) -> None:
            loop.call_soon_threadsafe(self._queue.put_nowait, event)

        self.sink: Sink = sink

    async def events(
        self, engine: Engine, job: Job, timeout: float | None
    ) -> AsyncGenerator[object, None]:
        """Submit a job and yield its events, as `Inbox.events` does."""
        engine.submit(job)
        loop = asyncio.get_running_loop()
        until = None if timeout is None else loop.time() + timeout
        try:
            while True:
                async with asyncio.timeout_at(until):
                    event = await self._queue.get()
                yield _checked(event)
        except TimeoutError as error:
            if isinstance(error, RagweaveError):
                raise
            raise _late(timeout) from error
        finally:
            job.cancel()


def _checked(event: object) -> object:
    if isinstance(event, RagweaveError):
        raise event
    return event


def _late(timeout: float | None) -> RunTimeoutError:
    return RunTimeoutError(f"the model took longer than {timeout} seconds")
