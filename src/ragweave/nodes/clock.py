"""How long nodes take, for whoever asks: at no cost where nobody does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Clock = Callable[[str, float, float], None]
"""Takes a node's name, and when one of its executions began and ended (`time.perf_counter`)."""

_CLOCK: ContextVar[Clock | None] = ContextVar("ragweave_clock", default=None)


@contextmanager
def timing(clock: Clock) -> Iterator[None]:
    """Call `clock` for every node that ends in this context, and in tasks begun in it."""
    token = _CLOCK.set(clock)
    try:
        yield
    finally:
        _CLOCK.reset(token)


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Time an execution of a node, failed ones too, if anyone wants to know."""
    clock = _CLOCK.get()
    if clock is None:
        yield
        return
    began = time.perf_counter()
    try:
        yield
    finally:
        clock(name, began, time.perf_counter())
