"""A process on a node as its driver sees it: what it is sent, what it reports, what its jobs ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ragweave.tools.cluster.node import Answer, Asked, Job, Order, Report
from ragweave.tools.process_errors import raised_again

Serve = Callable[[Any], Awaitable[Any]]
"""Answers what a job asks."""


class LostError(Exception):
    """The process that had a job is gone."""


async def nobody(request: Any) -> Any:
    """Answer nothing: what a job without a `Serve` may ask."""
    raise RuntimeError(f"a job asked its driver, which answers nothing: {request!r}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process may run."""

    node: str
    """The node's id; "": wherever there is room."""
    threads: int
    """How many threads libraries may use; 0: as Ray sets it."""
    gpus: int


@dataclass(slots=True)
class Underway:
    """A job under way."""

    result: asyncio.Future[Any]
    serve: Serve
    serving: set[asyncio.Task[None]] = field(default_factory=set)
    """What it has asked and is not answered yet."""


@dataclass(eq=False)
class Process:
    """A process on a node, as the driver sees it."""

    actor: Any
    place: Place
    on_error: Callable[[BaseException], None]
    jobs: dict[int, Underway] = field(default_factory=dict)
    _outbox: list[Order] = field(default_factory=list)
    _sending: asyncio.Task[None] | None = None

    def begin(self, job: Job, serve: Serve) -> Underway:
        """Have a job begun."""
        underway = Underway(asyncio.get_running_loop().create_future(), serve)
        self.jobs[job.number] = underway
        self._post(job)
        return underway

    async def follow(self) -> None:
        """Take what the process reports, until it is lost."""
        while True:
            for report in await got(self.actor.reports.remote()):
                self._take(report)

    def give_up(self, error: BaseException) -> None:
        """End the jobs that are under way."""
        for one in self.jobs.values():
            if not one.result.done():
                one.result.set_exception(error)

    def _take(self, report: Report) -> None:
        underway = self.jobs.get(report.job)
        if underway is None or underway.result.done():
            return
        if isinstance(report, Asked):
            task = asyncio.create_task(self._serve(report, underway))
            underway.serving.add(task)
            task.add_done_callback(underway.serving.discard)
        elif report.error is not None:
            underway.result.set_exception(raised_again(report.error, "a node"))
        else:
            underway.result.set_result(report.value)

    async def _serve(self, asked: Asked, underway: Underway) -> None:
        try:
            value = await underway.serve(asked.request)
        except Exception as error:  # noqa: BLE001 - raised where the job's result is awaited
            if not underway.result.done():
                underway.result.set_exception(error)
            return
        if asked.number:
            self._post(Answer(asked.number, value))

    def _post(self, order: Order) -> None:
        self._outbox.append(order)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """Send what there is to send, together."""
        while self._outbox:
            orders, self._outbox = self._outbox, []
            try:
                await got(self.actor.send.remote(orders))
            except Exception as error:  # noqa: BLE001 - the pool decides what it means
                self.on_error(error)
                return


async def got(reference: Any) -> Any:
    """Return what an object reference of Ray stands for, once it is there."""
    return await asyncio.wrap_future(reference.future())
