"""The side of the nodes: a process that does jobs, and asks the driver for what only it may do.

The driver sends jobs and fetches reports. Whatever a job wants written or looked up (a paid reply,
a cached one), it asks the driver for, which alone has the files: a node that is lost takes nothing
with it but what it was just doing.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

from ragweave.tools.process_errors import PlainError, plain_error


@dataclass(frozen=True, slots=True)
class Job:
    """A job for a node."""

    number: int
    payload: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The driver's answer to what a job asked."""

    number: int
    """That of the question."""
    value: Any


@dataclass(frozen=True, slots=True)
class Done:
    """A job's result, or the error that it ended in."""

    job: int
    value: Any = None
    error: PlainError | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What a job asks its driver."""

    job: int
    number: int
    """0: no answer is wanted."""
    request: Any


Order: TypeAlias = Job | Answer
Report: TypeAlias = Done | Asked


class Ask:
    """How a job speaks to its driver."""

    def __init__(self, job: int, host: Host) -> None:
        """Take the job's number and its process."""
        self._job, self._host = job, host

    async def __call__(self, request: Any) -> Any:
        """Ask the driver; return its answer."""
        return await self._host.ask(self._job, request)

    def tell(self, request: Any) -> None:
        """Tell the driver, without waiting for it; it hears what is told in this order."""
        self._host.report(Asked(self._job, 0, request))


Work = Callable[[Any, Ask], Awaitable[Any]]
"""Does one job: its payload, and how to ask the driver. Many run at once in one event loop."""
Make = Callable[[], Awaitable[Work]]
"""Makes ready on a node what does its jobs: opens models, say."""


class Host:
    """A process on a node; an actor of Ray."""

    def __init__(self) -> None:
        """Begin with nothing to report."""
        self._reports: list[Report] = []
        self._some = asyncio.Event()
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._work: Work | None = None

    async def hello(self) -> str:
        """Return the version of ragweave on this node."""
        import ragweave

        return ragweave.__version__

    async def open(
        self, make: Make, environment: Mapping[str, str], folder: str, threads: int
    ) -> PlainError | None:
        """Make ready for jobs; return the error that this met.

        Args:
            make: Makes what does the jobs.
            environment: Variables that this process takes over unless it has its own.
            folder: The driver's working directory, which relative paths are meant from.
            threads: How many threads libraries may use; 0: as Ray has set it.
        """
        for name, value in environment.items():
            os.environ.setdefault(name, value)
        with suppress(OSError):  # a node that lacks it says so where a path is not found
            os.chdir(folder)
        if threads:
            os.environ["OMP_NUM_THREADS"] = str(threads)
        try:
            self._work = await make()
        except Exception as error:  # noqa: BLE001 - raised again by the driver
            return plain_error(error)
        return None

    async def send(self, orders: list[Order]) -> None:
        """Take jobs and answers."""
        for one in orders:
            if isinstance(one, Job):
                task = asyncio.create_task(self._do(one))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif one.number in self._asked:
                self._asked.pop(one.number).set_result(one.value)

    async def reports(self) -> list[Report]:
        """Return what there is to report, once there is something."""
        await self._some.wait()
        self._some.clear()
        found, self._reports = self._reports, []
        return found

    def report(self, report: Report) -> None:
        """Put something among the reports."""
        self._reports.append(report)
        self._some.set()

    async def ask(self, job: int, request: Any) -> Any:
        """Put a question among the reports; return the driver's answer."""
        number = next(self._numbers)
        answer = self._asked[number] = asyncio.get_running_loop().create_future()
        self.report(Asked(job, number, request))
        return await answer

    async def _do(self, job: Job) -> None:
        work = self._work
        if work is None:
            raise RuntimeError("a job came before `open`")
        try:
            value = await work(job.payload, Ask(job.number, self))
        except Exception as error:  # noqa: BLE001 - raised again by the driver
            self.report(Done(job.number, error=plain_error(error)))
        else:
            self.report(Done(job.number, value))
