"""By when a run must end, for what computes in this process: nobody else would stop it.

A call with a time limit is made in a thread of its own, which nobody can end from outside. What
computes there for long has a `TimeLimit` and ends by itself; what waits for a server need not.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ragweave.errors import RunTimeoutError

_DEADLINE: ContextVar[float | None] = ContextVar("ragweave_run_deadline", default=None)
"""By the clock `time.monotonic`."""


@contextmanager
def ending_within(seconds: float | None) -> Iterator[None]:
    """Give calls in this context, and in threads and tasks begun in it, so many seconds.

    None: no fewer than they have already.
    """
    token = _DEADLINE.set(_earliest(seconds))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _earliest(seconds: float | None) -> float | None:
    """Return by when what has so many seconds, or those that its run leaves, must end."""
    ends = None if seconds is None else time.monotonic() + seconds
    return min((one for one in (ends, _DEADLINE.get()) if one is not None), default=None)


class TimeLimit:
    """The time that a call may take: its own limit, or what the run leaves where that is less."""

    def __init__(self, own: float | None, what: str) -> None:
        """Begin to count.

        Args:
            own: Most seconds that the call may take; None: no limit but the run's.
            what: What took longer, for the message: "the model".
        """
        self._until, self._own, self._what = _earliest(own), own, what
        self._is_run = self._until == _DEADLINE.get()

    def left(self) -> float | None:
        """Return the seconds that are left, 0 or more; None: no limit."""
        if self._until is None:
            return None
        return min(max(0.0, self._until - time.monotonic()), threading.TIMEOUT_MAX)

    def error(self) -> RunTimeoutError:
        """Return the error that says which limit was reached."""
        if self._is_run:
            return run_timed_out()
        return RunTimeoutError(f"{self._what} took longer than {self._own} seconds")


def run_timed_out() -> RunTimeoutError:
    """Return the error of a call during which the run's time ended."""
    return RunTimeoutError("the run's time limit was reached during a call")
