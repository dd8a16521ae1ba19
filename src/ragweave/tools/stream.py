"""Many pieces of work as one stream, so many at once: nothing waits for a batch's slowest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

REFUSED = frozenset({401, 403, 404})
"""HTTP statuses that every other piece would meet too: no key, no right, no such model."""

Job = TypeVar("Job")


class Slot:
    """The room that a piece of work takes up among those that run at once."""

    def __init__(self, room: asyncio.Semaphore) -> None:
        """Take up the room; the caller has acquired it."""
        self._room = room
        self._taken = True

    def leave(self) -> None:
        """Let the next piece begin while this one is brought to its end; again does nothing."""
        if self._taken:
            self._taken = False
            self._room.release()


async def run_bounded(
    jobs: Iterable[Job],
    work: Callable[[Job, Slot], Awaitable[None]],
    *,
    concurrency: int,
    finishing: int = 0,
    may_begin: Callable[[], bool] = lambda: True,
) -> bool:
    """Do all jobs, in order of beginning, at most `concurrency` at once.

    Args:
        jobs: What is to be done; taken from as there is room, so it may be endless or lazy.
        work: Does one job, and tells whoever wants to know. It may leave its slot early.
        concurrency: How many run at once.
        finishing: How many more may have left their slots without being done (recording, say).
        may_begin: Asked before each job, for budgets: False ends the stream once those under way
            are done.

    Returns:
        Whether every job was done; False: `may_begin` said no.

    Raises:
        BaseException: The first error that a job raised; those under way were cancelled.
    """
    slots = asyncio.Semaphore(concurrency)
    room = asyncio.Semaphore(concurrency + finishing)

    async def one(job: Job) -> None:
        slot = Slot(slots)
        try:
            await work(job, slot)
        finally:
            slot.leave()

    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                await room.acquire()
                await slots.acquire()
                if not may_begin():
                    return False
                task = group.create_task(one(job))
                task.add_done_callback(lambda _task: room.release())
    except BaseExceptionGroup as errors:
        raise first_error(errors) from None
    return True


def first_error(errors: BaseException) -> BaseException:
    """Return the first error of a group (of groups) of several tasks; any other error as it is."""
    while isinstance(errors, BaseExceptionGroup):
        errors = errors.exceptions[0]
    return errors
