"""The thread that owns a model: callers from anywhere hand it requests."""

from __future__ import annotations

import os
import threading
from collections import deque

from ragweave.errors import ModelError
from ragweave.tools.models.llamacpp.core import Core
from ragweave.tools.models.llamacpp.decoder import Decoder
from ragweave.tools.models.llamacpp.job import Job


class Scheduler:
    """Runs a decoder in one thread of its own. `submit` and `close` are safe under threads."""

    def __init__(self, core: Core, n_parallel: int, n_kept: int | None = None) -> None:
        """Start the thread; from now on nobody else may use `core` but for its vocabulary."""
        self._core = core
        self.decoder = Decoder(core, n_parallel, n_kept=n_kept)
        self._arrived: deque[Job] = deque()
        self._closed = False
        self._process = os.getpid()
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ragweave-llamacpp", daemon=True)
        self._thread.start()

    @property
    def closed(self) -> bool:
        """Whether no request is taken any more."""
        return self._closed

    def submit(self, job: Job) -> None:
        """Hand over a request; its sink hears of it from the scheduler's thread.

        Raises:
            ModelError: The model was closed, or was loaded before this process was forked.
        """
        if os.getpid() != self._process:
            raise ModelError("the model was loaded before a fork: load it in each process")
        with self._wake:
            if self._closed:
                raise ModelError("the model was closed")
            self._arrived.append(job)
            self._wake.notify()

    def close(self) -> None:
        """Fail what is in work, free the model, and end the thread."""
        if os.getpid() != self._process:
            return
        with self._wake:
            self._closed = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            while self._take_arrived():
                self.decoder.step()
        finally:
            with self._wake:
                asked, self._closed = self._closed, True
                for job in self._arrived:
                    self.decoder.add(job)
                self._arrived.clear()
            fault = "the model's thread failed; the next call loads the model again"
            self.decoder.fail_all(ModelError("the model was closed" if asked else fault))
            self._core.close()

    def _take_arrived(self) -> bool:
        """Wait for work; return False when it is time to end."""
        with self._wake:
            while not (self._arrived or self._closed or self.decoder.busy):
                self._wake.wait()
            while self._arrived:
                self.decoder.add(self._arrived.popleft())
            return not self._closed
