"""Blocking work in threads of its own, each of which ends with the process.

No pool: the threads of a pool keep the process alive until a hung call ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def in_thread(work: Callable[[], T]) -> Future[T]:
    """Begin `work` in a thread of its own, in this context, and return its result to come."""
    future: Future[T] = Future()
    future.set_running_or_notify_cancel()
    run = contextvars.copy_context().run

    def body() -> None:
        try:
            future.set_result(run(work))
        except BaseException as error:  # noqa: BLE001 - raised again on the waiting side
            future.set_exception(error)

    threading.Thread(target=body, name="ragweave", daemon=True).start()
    return future


def on_event_loop() -> bool:
    """Return whether an event loop runs in this thread, which blocking work would hold up."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def awaited(work: Callable[[], T]) -> T:
    """Do blocking `work` in a thread of its own, and await its result."""
    return await asyncio.wrap_future(in_thread(work))
