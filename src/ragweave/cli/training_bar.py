"""Progress of a training on a terminal, and Ctrl-C that saves before it stops."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from ragweave.cli.screen import plain, progress_bar
from ragweave.training.job import Watch


class TrainingBar(Watch):
    """Shows steps, the loss and the time left; in a pipe only what is worth a line."""

    def __init__(self) -> None:
        """Set up the bar; it shows from the first step on."""
        super().__init__()
        self._bar = progress_bar("loss {task.fields[loss]}")
        self._task: Any = None

    def __enter__(self) -> TrainingBar:
        """Begin to show."""
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End showing."""
        self._bar.stop()

    def step(self, done: int, total: int, loss: float | None) -> None:
        """Move the bar."""
        if self._task is None:
            self._task = self._bar.add_task("training", total=total, loss="–")
        self._bar.update(self._task, completed=done, total=total)
        if loss is not None:
            self._bar.update(self._task, loss=f"{loss:.4f}")

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(plain(line), markup=False)


@contextmanager
def saving_on_interrupt(watch: Watch) -> Iterator[None]:
    """Let the first Ctrl-C ask for a checkpoint and a stop, the second stop at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def ask_to_stop(_number: int, _frame: FrameType | None) -> None:
        if watch.stop_wanted:
            signal.signal(signal.SIGINT, before)
            raise KeyboardInterrupt
        watch.stop_wanted = True
        watch.say("stopping after this step; a checkpoint is saved (Ctrl-C again: at once)")

    signal.signal(signal.SIGINT, ask_to_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
