"""A loaded model that takes requests from any thread or event loop.

One thread owns the model and its decoder (`Scheduler`); callers submit jobs and read the events
of a reply from an inbox.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import queue
import signal
import threading
import weakref
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from ragweave.errors import ModelError, RagweaveError, UnusableModelError
from ragweave.llamacpp.binding import cache_bytes, context_length, in_main_memory
from ragweave.llamacpp.core import Core, CoreSettings, check_types
from ragweave.llamacpp.decoder import Decoder
from ragweave.llamacpp.gguf import GGUFFacts, read_gguf
from ragweave.llamacpp.guard import extra_buffers
from ragweave.llamacpp.job import Job, Sink
from ragweave.llamacpp.prefix import Shelf
from ragweave.tools.deadline import TimeLimit


class Scheduler:
    """Runs a decoder in one thread of its own. `submit` and `close` are safe under threads."""

    def __init__(
        self, core: Core, n_parallel: int, n_kept: int | None = None, shelf: Shelf | None = None
    ) -> None:
        """Start the thread; from now on others may use only the vocabulary of `core`."""
        self._core = core
        self.decoder = Decoder(core, n_parallel, n_kept=n_kept, shelf=shelf)
        self._arrived: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._closed = False
        self._process = os.getpid()
        self._entry = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="ragweave-llamacpp", daemon=True)
        _RUNNING.add(self)
        _close_all_at_exit()
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether new requests are refused."""
        return self._closed

    def submit(self, job: Job) -> None:
        """Submit a request; its events reach its sink from the scheduler's thread.

        Raises:
            ModelError: The model was closed, or was loaded before this process was forked.
        """
        if os.getpid() != self._process:
            raise ModelError(
                "the model was loaded before this process was forked: load it in each process"
            )
        with self._entry:
            if self._closed:
                raise ModelError("the model was closed")
            self._arrived.put(job)

    def stop(self) -> None:
        """Let the thread fail running requests, free the model and end; nobody waits for it.

        The garbage collector calls this, in any thread and whatever lock that thread holds: so it
        takes none, and does not wait for the model's thread, which writes to the log as it ends.
        """
        self._closed = True
        self._arrived.put(None)

    def close(self) -> None:
        """Fail running requests, free the model, and end the thread."""
        if os.getpid() != self._process:
            return
        self.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_arrived():
                self.decoder.step()
        finally:
            with self._entry:
                closed, self._closed = self._closed, True
            with suppress(queue.Empty):
                while True:
                    self._add(self._arrived.get_nowait())
            failure = "the model's thread failed; the next call loads the model again"
            self.decoder.fail_all(ModelError("the model was closed" if closed else failure))
            self._core.close()

    def _take_arrived(self) -> bool:
        """Wait for work; return False when it is time to end."""
        with suppress(queue.Empty):
            self._add(self._arrived.get(block=not self.decoder.busy))
            while True:
                self._add(self._arrived.get_nowait())
        return not self._closed

    def _add(self, job: Job | None) -> None:
        if job is not None:
            self.decoder.add(job)


_RUNNING: weakref.WeakSet[Scheduler] = weakref.WeakSet()


def _close_all() -> None:
    for one in list(_RUNNING):
        one.close()


def _close_all_at_exit() -> None:
    """End the threads first at exit, before finalizers free the models and samplers they use."""
    atexit.unregister(_close_all)
    atexit.register(_close_all)


_LOGGER = logging.getLogger("ragweave.llamacpp")


def load_core(
    facts: GGUFFacts, settings: CoreSettings, *, extra_buffers: bool, most: int | None = None
) -> Core:
    """Load a model; Ctrl-C and SIGTERM break the load off, and are dealt with behind it.

    Python runs their handlers in the main thread, and there what they raise would be lost: llama.cpp
    calls back for its log, and an exception in a callback goes no further.

    The arguments are those of `Core`.

    Raises:
        MissingExtraError: llama-cpp-python is not installed.
        UnusableModelError: The model can't be loaded.
    """
    load = partial(Core, facts, settings, extra_buffers=extra_buffers, most=most)
    if threading.current_thread() is not threading.main_thread():
        return load()
    core: Core | None = None
    while core is None:  # a handler may only take note, and let the program go on
        try:
            with _signals_held() as came:
                try:
                    core = load(abandoned=partial(bool, came))
                except UnusableModelError:
                    if not came:
                        raise
        except BaseException:
            if core is not None:
                core.close()
            raise
    return core


@contextmanager
def _signals_held() -> Iterator[Sequence[object]]:
    """Hold back Ctrl-C and SIGTERM, and have those that came meanwhile handled at the end."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    ours = {number: handler for number, handler in handlers.items() if callable(handler)}
    held: list[tuple[int, FrameType | None]] = []
    for number in ours:
        signal.signal(number, lambda *one: held.append(one))
    try:
        yield held
    finally:
        for number, handler in ours.items():
            signal.signal(number, handler)
    for came, frame in held:
        ours[signal.Signals(came)](came, frame)


class Engine:
    """A loaded model with its scheduler; frees itself with its last reference."""

    def __init__(
        self, path: str | Path, settings: CoreSettings | None = None, *, most: int | None = None
    ) -> None:
        """Load a model file.

        Args:
            path: The file.
            settings: How to load it.
            most: Longest context to open; None: what the settings ask for, or what fits.

        Raises:
            MissingExtraError: llama-cpp-python is not installed.
            ModelError: The file is missing, damaged, too large, or does not generate text.
            UsageError: A setting is out of range.
        """
        settings = settings or CoreSettings()
        self.facts: GGUFFacts = read_gguf(path)
        check_types(self.facts)
        extra = extra_buffers(self.facts, settings.repack, asdict(settings))
        core = load_core(self.facts, settings, extra_buffers=extra, most=most)
        self.vocabulary = core.vocabulary
        self.n_ctx = core.n_ctx
        self.placement = core.placement
        """One line that says where the layers are, the context and the threads."""
        _LOGGER.info("%s", self.placement)
        shelf = Shelf(cache_bytes(settings.cache_ram, in_memory=core.in_memory))
        self._scheduler = Scheduler(core, settings.n_parallel, settings.n_kept, shelf)
        weakref.finalize(self, self._scheduler.stop).atexit = False

    @property
    def computed(self) -> int:
        """Tokens computed so far; a shared prefix counts once."""
        return self._scheduler.decoder.computed

    @property
    def closed(self) -> bool:
        """Whether the model was freed, by `close` or by an error in its thread."""
        return self._scheduler.closed

    def submit(self, job: Job) -> None:
        """Hand a job to the scheduler."""
        self._scheduler.submit(job)

    def close(self) -> None:
        """Free the model; running requests fail."""
        self._scheduler.close()


class Loader:
    """Loads an engine at its first use, once, and shares it between copies of a chat model."""

    def __init__(self, facts: GGUFFacts, settings: CoreSettings) -> None:
        """Remember what to load."""
        self._facts, self._settings = facts, settings
        self._lock, self._choosing = threading.Lock(), threading.Lock()
        self._engine: Engine | None = None
        self._n_ctx = settings.n_ctx

    def __deepcopy__(self, memo: dict[int, Any]) -> Loader:
        """Return itself: a copied chat model shares the weights."""
        return self

    @property
    def n_ctx(self) -> int:
        """Tokens of the context that is open, or that the next call opens.

        It is chosen before the weights are loaded, which takes memory: what is asked at the same
        time as the first call gets the same number. The load lowers it where less is free by then.

        Raises:
            MissingExtraError: llama-cpp-python is not installed.
            UnusableModelError: The file and its cache take more memory than there is.
        """
        with self._choosing:
            if self._n_ctx is None:
                loads = self._settings
                in_memory = in_main_memory(loads.n_gpu_layers)
                sequences = loads.sequences(self._facts)
                self._n_ctx = context_length(
                    self._facts, None, loads.n_batch, sequences, in_memory=in_memory
                )
            return self._n_ctx

    @property
    def known_n_ctx(self) -> int | None:
        """What `n_ctx` is, where it was chosen already; measures and loads nothing."""
        return self._n_ctx

    def get(self) -> Engine:
        """Return the engine; a closed one is loaded again."""
        with self._lock:
            if self._engine is None or self._engine.closed:
                try:
                    self._engine = Engine(self._facts.path, self._settings, most=self.n_ctx)
                    self._n_ctx = self._engine.n_ctx
                except BaseException:
                    self._n_ctx = self._settings.n_ctx  # to be chosen by what is free next time
                    raise
            return self._engine

    def close(self) -> None:
        """Free the engine, if one was loaded."""
        with self._lock:
            engine, self._engine = self._engine, None
            self._n_ctx = self._settings.n_ctx
        if engine is not None:
            engine.close()


class Inbox:
    """A queue from which a waiting thread reads a job's events."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.sink: Sink = self._queue.put

    def events(
        self, engine: Engine, job: Job, timeout: float | None
    ) -> Generator[object, None, None]:
        """Submit a job and yield its events without end; closing the iterator cancels the job.

        Raises:
            RunTimeoutError: The job took longer than `timeout` seconds, or than its run may take.
            RagweaveError: The job failed.
        """
        engine.submit(job)
        limit = TimeLimit(timeout, "the model")
        try:
            while True:
                yield _checked(self._queue.get(timeout=limit.left()))
        except queue.Empty as error:
            raise limit.error() from error
        finally:
            job.cancel()


class AsyncInbox:
    """A queue from which a waiting task reads a job's events."""

    def __init__(self) -> None:
        """Bind the queue to the running event loop."""
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
        limit = TimeLimit(timeout, "the model")
        try:
            while True:
                async with asyncio.timeout(limit.left()):
                    event = await self._queue.get()
                yield _checked(event)
        except TimeoutError as error:
            if isinstance(error, RagweaveError):
                raise
            raise limit.error() from error
        finally:
            job.cancel()


def _checked(event: object) -> object:
    if isinstance(event, RagweaveError):
        raise event
    return event
