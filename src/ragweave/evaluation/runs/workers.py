"""A run by several processes, so that all cores are used.

Every worker takes each n-th question and writes to the run directory itself. So a run that was
stopped can be resumed with any number of workers, and what reads a run need not know of them.

A worker reads its task as a line of JSON from standard input and reports as lines of JSON on
standard output. It stops when its input ends: its parent has exited. It logs and traces as its
parent does.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ragweave.errors import UsageError
from ragweave.evaluation.metrics import infos_of, primary_metric
from ragweave.evaluation.runs.directory import RunDirectory, hold
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.progress import Progress, RunConfig
from ragweave.evaluation.runs.recorder import RecordingError
from ragweave.evaluation.runs.run import OnProgress, RunResult, answer, checked, evaluate, so_far
from ragweave.tools import logs, tracing
from ragweave.tools.journal import first_error
from ragweave.tools.process_errors import KINDS, ProcessError, plain_error, raised_again

WORKER = [sys.executable, "-P", "-c", f"from {__name__} import main; main()"]
"""The command line of a worker."""
_STOP = b"stop\n"
"""Tells a worker to begin no further question."""
_SENT = ("at", "id", "system", "spent", "cost", "judge", "error", "scoring")
"""Keys of a record that a worker reports."""


def main() -> None:
    """Work on the task that standard input describes."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what a library prints must not mix with the reports
    try:
        asyncio.run(_work(output))
    except (BrokenPipeError, asyncio.CancelledError):
        tracing.shutdown()
        os._exit(1)
    tracing.shutdown()


async def _work(output: IO[str]) -> None:
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    task = json.loads(await commands.readline())
    stop = asyncio.Event()
    watch = asyncio.create_task(_watch(commands, stop, asyncio.current_task()))
    try:
        with _observed(task):
            complete = await _answer(task, output, stop)
    except Exception as error:  # noqa: BLE001 - passed to the process that waits for it
        _report(output, {"error": plain_error(error)})
    else:
        _report(output, {"ended": {"complete": complete}})
    watch.cancel()


@contextmanager
def _observed(task: dict[str, Any]) -> Iterator[None]:
    """Log and trace as the process does that gave the task; its last spans leave at the end."""
    if task["tracing"] is not None:
        tracing.instrument(**task["tracing"])
    if task["verbosity"] is None:
        yield
        return
    with logs.log_to_stderr(task["verbosity"]):
        yield


async def _answer(task: dict[str, Any], output: IO[str], stop: asyncio.Event) -> bool:
    directory = RunDirectory(Path(task["directory"]))
    config = RunConfig.from_plain(task["config"])
    part, parts = task["part"]
    metrics = infos_of(directory.settings.metrics)

    def on_progress(_progress: Progress, record: Record | None) -> None:
        if record is not None:
            primary = primary_metric(record["scoring"], record["scores"], metrics)
            scores = {name: v for name, v in record["scores"].items() if name == primary}
            sent = {key: record[key] for key in _SENT if key in record}
            _report(output, {"record": sent | {"scores": scores}})

    dataset = checked(directory.settings, config)
    result = await answer(
        directory,
        config,
        dataset,
        part=(part, parts),
        on_progress=on_progress,
        stop=stop.is_set,
    )
    return result.complete


async def _watch(
    commands: asyncio.StreamReader, stop: asyncio.Event, work: asyncio.Task[None] | None
) -> None:
    while line := await commands.readline():
        if line == _STOP:
            stop.set()
    if work is not None:
        work.cancel()


def _report(output: IO[str], event: dict[str, Any]) -> None:
    output.write(json.dumps(event) + "\n")


_KINDS = {**KINDS, "RecordingError": RecordingError}
_SECONDS_TO_STOP = 15.0
_LINE = 1 << 20
"""Longest line of a worker's report, in bytes."""


class WorkerError(ProcessError):
    """A worker met an error that ends the run, or was killed; what is recorded is kept."""


async def evaluate_in_workers(
    directory: RunDirectory,
    config: RunConfig | None = None,
    *,
    workers: int,
    on_progress: OnProgress = lambda _progress, _record: None,
) -> RunResult:
    """Answer what is left of a run with several processes.

    Models and retriever are those of the settings; each worker opens its own. The concurrency is
    divided among them. A budget applies to all; what is in flight when it is spent is finished.

    Args:
        directory: The run, as `claim_directory` returned it.
        config: Concurrency, cache, budgets, of all workers together.
        workers: How many processes; not more than `config.concurrency` are started.
        on_progress: Called with the run's progress, at the start and with each result: the parts
            of its record that the progress counts.

    Raises:
        UsageError: As `evaluate`; or `workers` is below 1.
        RecordingError: The directory cannot be written; what is recorded is kept.
        WorkerError: A worker was killed, or met an error that ends the run.
    """
    if workers < 1:
        raise UsageError(f"--workers must be at least 1, not {workers}")
    config = config or RunConfig()
    workers = min(workers, config.concurrency)
    if workers > 1 and os.name == "nt":
        raise UsageError("several workers need Linux or macOS: on Windows use --workers 1")
    if workers == 1:
        return await evaluate(directory, config, on_progress=on_progress)
    settings = directory.settings
    checked(settings, config)
    with hold(directory) as lock:
        _, progress = so_far(directory, settings, retry_failed=config.retry_failed)
        on_progress(progress, None)
        if progress.finished >= progress.planned:
            return RunResult(progress=progress, complete=True)
        pool = _WorkerPool(directory, config, workers, lock, progress, on_progress)
        return RunResult(progress=progress, complete=await pool.work())


@dataclass
class _WorkerPool:
    directory: RunDirectory
    config: RunConfig
    workers: int
    lock: int
    progress: Progress
    on_progress: OnProgress
    spent: bool = False
    """Whether a budget is spent."""
    running: list[Process] = field(default_factory=list)

    async def work(self) -> bool:
        try:
            async with asyncio.TaskGroup() as group:
                parts = range(1, self.workers + 1)
                found = [group.create_task(self._follow(part)) for part in parts]
        except ExceptionGroup as errors:
            raise first_error(errors) from None
        return all(one.result() for one in found)

    async def _follow(self, part: int) -> bool:
        """Start a worker and follow its reports; return whether its part is complete."""
        name = f"worker {part} of {self.workers}"
        async with self._started(part) as process:
            assert process.stdout is not None  # noqa: S101 - a pipe was asked for
            async for line in process.stdout:
                event: dict[str, Any] = json.loads(line)
                if "record" in event:
                    await self._take(event["record"])
                elif "ended" in event:
                    return bool(event["ended"]["complete"])
                else:
                    raise raised_again(event["error"], name, _KINDS, WorkerError)
            code = await process.wait()
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise WorkerError(f"{name} {how}; what is recorded is kept, and the run can be resumed")

    @asynccontextmanager
    async def _started(self, part: int) -> AsyncIterator[Process]:
        share, rest = divmod(self.config.concurrency, self.workers)
        config = dataclasses.replace(self.config, concurrency=share + (part <= rest))
        task = {
            "directory": str(self.directory.path),
            "config": config.plain(),
            "part": [part, self.workers],
            "verbosity": logs.verbosity(),
            "tracing": tracing.asked(),
        }
        path = os.pathsep.join(place for place in sys.path if place)
        process = await asyncio.create_subprocess_exec(
            *WORKER,
            stdin=PIPE,
            stdout=PIPE,
            limit=_LINE,
            pass_fds=(self.lock,),
            start_new_session=True,  # Ctrl-C is for this process, which then stops its workers
            env={**os.environ, "PYTHONPATH": path},
        )
        self.running.append(process)
        try:
            await self._send(process, json.dumps(task).encode() + b"\n")
            if self.spent:
                await self._send(process, _STOP)
            yield process
        finally:
            self.running.remove(process)
            await _stop(process)

    async def _take(self, record: Record) -> None:
        self.progress.add(record)
        self.on_progress(self.progress, record)
        if not self.spent and self._is_spent():
            self.spent = True
            for process in list(self.running):
                await self._send(process, _STOP)

    def _is_spent(self) -> bool:
        tokens, dollars = self.config.budget_tokens, self.config.budget_usd
        if tokens is not None and self.progress.spent.paid_tokens >= tokens:
            return True
        return dollars is not None and self.progress.cost >= dollars

    async def _send(self, process: Process, line: bytes) -> None:
        """Send a line to a worker, unless it has ended already."""
        assert process.stdin is not None  # noqa: S101 - a pipe was asked for
        with suppress(ConnectionError):
            process.stdin.write(line)
            await process.stdin.drain()


async def _stop(process: Process) -> None:
    """End a worker, even where this is cancelled meanwhile: nothing is left behind."""
    ending = asyncio.ensure_future(_end(process))
    try:
        await asyncio.shield(ending)
    except asyncio.CancelledError:
        await ending
        raise


async def _end(process: Process) -> None:
    """Close a worker's input, so that it exits by itself; kill it where it does not."""
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    process.stdin.close()
    try:
        async with asyncio.timeout(_SECONDS_TO_STOP):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
