"""The side of the driver: processes on a cluster's nodes, jobs for them, and what becomes of a loss.

The driver fetches what a process reports and answers what its jobs ask. Nothing on a node writes
anything, so a driver may be outside the cluster, and what is durable does not depend on the nodes.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import ragweave
from ragweave.errors import RagweaveError, UsageError
from ragweave.tools.cluster.node import Host, Job, Make
from ragweave.tools.cluster.process import LostError, Place, Process, Serve, got, nobody
from ragweave.tools.process_errors import ProcessError, raised_again

_START_SECONDS = 120.0
"""How long a process may wait for a node with a free CPU."""
_TOGETHER_SECONDS = 5.0
"""How long the first process that is ready waits for the others, so that all begin together."""
_TRIES = 3
"""How often a job is begun: what ends its process each time is left at that."""
_STARTS = 3
"""How many processes in a row may end before they are ready."""
_JOBS_EACH = 4
"""Jobs at once that a further process on a node is worth starting for."""
_PAUSE = 1.0
"""Seconds before a lost process is replaced."""
_PASSED_ON = re.compile(
    r"\w+_API_KEY|\w+_BASE_URL|\w+_API_BASE|PGPASSWORD|(ELASTIC|OPEN)SEARCH_PASSWORD"
)


class LostNodeError(RagweaveError):
    """The node that had a job was lost, again and again."""


class NoNodeError(RagweaveError):
    """No node of the cluster is left."""


class Pool:
    """Processes on the nodes of a cluster; an asynchronous context manager.

    Example:
        >>> with connected("auto") as ray:  # doctest: +SKIP
        ...     async with Pool(ray, make, jobs=16) as pool:
        ...         print(await pool.do(lambda attempt: "a job"))
    """

    def __init__(self, ray: Any, make: Make, *, jobs: int, whole_nodes: bool = False) -> None:
        """Set what the processes do and how many there are.

        Args:
            ray: The module, connected.
            make: Makes ready on a node what does its jobs; pickled.
            jobs: How many jobs will be under way at once: processes, each with a CPU of its own,
                are started for them, one on each node before a second on any.
            whole_nodes: One process a node (or GPU), which may use all its cores: for work that
                loads a model.
        """
        self._ray, self._make, self._jobs, self._whole = ray, make, jobs, whole_nodes
        self._numbers = itertools.count(1)
        self._open: list[Process] = []
        self._starting: list[Process] = []
        self._lives: set[asyncio.Task[None]] = set()
        self._failed_starts = 0
        self._error: BaseException | None = None
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        """Start the processes; return once they are ready, or the first of them has waited enough.

        Raises:
            UsageError: The work cannot be made ready on a node, or no node has a free CPU.
            ProcessError: As UsageError, by an error that nobody expected.
        """
        for place in self._places() or [Place("", 0, 0)]:
            self._start(place)
        try:
            await self._freest()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TOGETHER_SECONDS):
                    while self._starting and self._error is None:
                        await self._change()
            await self._freest()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """End the processes."""
        for task in self._lives:
            task.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        for one in [*self._open, *self._starting]:
            self._end(one)

    @property
    def size(self) -> int:
        """How many processes are ready or starting."""
        return len(self._open) + len(self._starting)

    async def do(
        self,
        payload: Callable[[int], Any],
        serve: Serve = nobody,
        lost: Callable[[], None] = lambda: None,
    ) -> Any:
        """Have a job done by the process that has the fewest; return its result.

        Where its node is lost, the job is begun again on another, once what it had asked before is
        answered.

        Args:
            payload: Returns the job, given how often it was lost before.
            serve: Answers what it asks.
            lost: Called when its node is lost.

        Raises:
            LostNodeError: Its node was lost again and again.
            NoNodeError: No node is left.
            RagweaveError: The error that the job ended in; or one that `serve` raised.
        """
        for attempt in range(_TRIES):
            process = await self._freest()
            job = Job(next(self._numbers), payload(attempt))
            underway = process.begin(job, serve)
            try:
                return await underway.result
            except LostError:
                lost()
                await asyncio.gather(*underway.serving, return_exceptions=True)
            finally:
                process.jobs.pop(job.number, None)
        raise LostNodeError(f"the node that worked on this was lost, {_TRIES} times in all")

    async def _freest(self) -> Process:
        while not self._open:
            if self._error is not None:
                raise self._error
            if not self._lives:
                raise NoNodeError(
                    "no node of the Ray cluster is left; what is recorded is kept, and the same "
                    "work can be resumed, with or without --ray"
                )
            await self._change()
        if self._error is not None:
            raise self._error
        return min(self._open, key=lambda one: len(one.jobs))

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _places(self) -> list[Place]:
        """Return where processes should run, one on each node before a second on any."""
        found = [list(self._on_node(one)) for one in self._ray.nodes() if one["Alive"]]
        per_node = [one for one in found if one]
        rounds = itertools.zip_longest(*per_node)
        places = [place for one in rounds for place in one if place is not None]
        wanted = max(len(per_node), math.ceil(self._jobs / _JOBS_EACH))
        return places[: min(self._jobs, wanted)]

    def _on_node(self, node: Mapping[str, Any]) -> Iterator[Place]:
        cpus = int(node["Resources"].get("CPU", 0))
        if not self._whole:
            yield from [Place(node["NodeID"], 0, 0)] * cpus
            return
        gpus = int(node["Resources"].get("GPU", 0))
        count = min(cpus, max(1, gpus))
        yield from [Place(node["NodeID"], cpus // max(1, count), min(1, gpus))] * count

    def _start(self, place: Place) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        options: dict[str, Any] = {"num_cpus": 1, "num_gpus": place.gpus, "max_restarts": 0}
        if place.node:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(place.node, soft=True)
        try:
            actor = self._ray.remote(**options)(Host).remote()
        except ImportError as error:  # through `ray://`: the head lacks what a node would lack
            raise _not_there(error) from error
        process = Process(actor, place, self._sending_failed)
        self._starting.append(process)
        task = asyncio.create_task(self._live(process))
        self._lives.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._lives.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)
        self._changed.set()

    async def _live(self, process: Process) -> None:
        """Start a process and follow it until it is lost; then start another in its place."""
        lost = self._ray.exceptions.RayActorError
        try:
            await self._made_ready(process)
            self._failed_starts = 0
            self._starting.remove(process)
            self._open.append(process)
            self._changed.set()
            await process.follow()
        except lost as error:
            if getattr(error, "actor_init_failed", False):
                self._fail(_not_there(error))
            else:
                await self._replace(process)
        except RagweaveError as error:
            self._fail(error)
        except TimeoutError:
            self._no_room(process)
        except self._ray.exceptions.RayError as error:
            self._fail(_not_there(error))

    async def _made_ready(self, process: Process) -> None:
        async with asyncio.timeout(_START_SECONDS):
            version = await got(process.actor.hello.remote())
        if version != ragweave.__version__:
            raise UsageError(
                f"a node of the Ray cluster has ragweave {version}, this is {ragweave.__version__}: "
                "install the same version on all nodes"
            )
        threads = 0 if "OMP_NUM_THREADS" in os.environ else process.place.threads
        try:
            opening = process.actor.open.remote(
                self._make, environment(os.environ), str(Path.cwd()), threads
            )
        except TypeError as error:
            raise UsageError(
                f"this work cannot be sent to the nodes ({error}): name models by spec, which each "
                "node opens for itself"
            ) from error
        found = await got(opening)
        if found is not None:
            raise raised_again(found, "a node")

    def _no_room(self, process: Process) -> None:
        """Do without a process for which no node had room, where there are others."""
        self._starting.remove(process)
        self._end(process)
        if self._open:
            return
        cpus = sum(int(one["Resources"].get("CPU", 0)) for one in self._ray.nodes())
        self._fail(
            UsageError(
                f"no node of the Ray cluster had a free CPU for {_START_SECONDS:.0f} seconds (it "
                f"has {cpus}): `ray status` shows what takes them"
            )
        )

    async def _replace(self, process: Process) -> None:
        """Let the jobs of a lost process begin again, and start another where there is room."""
        ready = process in self._open
        (self._open if ready else self._starting).remove(process)
        self._failed_starts += not ready
        process.give_up(LostError())
        self._end(process)
        await asyncio.sleep(_PAUSE)
        if self._failed_starts >= _STARTS:
            return
        taken = [one.place for one in [*self._open, *self._starting]]
        for place in self._places():
            if place in taken:
                taken.remove(place)
            else:
                self._start(place)
                return

    def _sending_failed(self, error: BaseException) -> None:
        """Take an error of sending; that a process is lost is told to who follows it, too."""
        if not isinstance(error, self._ray.exceptions.RayActorError):
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End all work with an error."""
        self._error = self._error or error
        for one in [*self._open, *self._starting]:
            one.give_up(self._error)
        self._changed.set()

    def _end(self, process: Process) -> None:
        self._ray.kill(process.actor)


def _not_there(error: BaseException) -> ProcessError:
    """Return what to say where a process cannot even begin, or breaks."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    made = ProcessError(
        f"a process on a node of the Ray cluster failed ({lines[-1] if lines else error!r}): is "
        "ragweave, with the same extras, installed on all nodes?"
    )
    made.add_note(str(error))
    return made


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that nodes take over: keys and addresses of model servers and stores."""
    return {name: value for name, value in variables.items() if _PASSED_ON.fullmatch(name)}
