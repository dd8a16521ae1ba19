"""The loop: ask every system every question, and write each answer as a line of `results.jsonl`.

A system is anything with a name that takes a question and returns a record:

    class Echo:
        name = "echo"
        async def __call__(self, question):
            return {"answer": question.question, "scores": {}}

A resumed run skips the questions with an answer in `results.jsonl` and asks failed ones again. Unfinished questions start
over, with their finished calls from the cache. So do questions that changed in the data, and all if the knowledge base
changed: if only their golds did, all calls come from the cache, except those of a judge, or a method, that reads the
golds. A run retries calls (`systems.open_model`) but not questions.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from anyio.from_thread import start_blocking_portal
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ragweave.datasets import Question
from ragweave.errors import RagweaveError, UsageError
from ragweave.evaluation.folder import Record, gone, open_results, read_results, write_settings
from ragweave.evaluation.metrics.metric import finite
from ragweave.tools.models.budget import Limits
from ragweave.tools.models.calls import is_transient, server_text, status_of
from ragweave.tools.prices import Price
from ragweave.tools.replies import ReplyCache, asking
from ragweave.tools.text.untrusted import redacted

_REFUSED = {401: "the key was refused", 402: "the account has no credit"}
INTERRUPTED = "interrupted: the same command resumes"
_FIRST = 4
"""Questions asked before the first answer; if all of them are refused with the same message, the run ends."""
_THREADS = 64
"""Calls at once of models without asynchronous calls."""
_MAX_FAILURES = 20
"""Maximum failures in a row, of any kind, before a run ends."""


def _redacted(value: Any) -> Any:
    """Return settings without keys and passwords."""
    if isinstance(value, dict):
        return {name: _redacted(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_redacted, value)]
    return redacted(value) if isinstance(value, str) else value


Result = TypeVar("Result")


class Stopped(Exception):  # noqa: N818 - not an error
    """The run ends early; the text says why."""


class System(Protocol):
    """Something that answers questions. If it has a `state` that changes, its questions are asked again."""

    name: str

    async def __call__(self, question: Question) -> Record:
        """Answer a question, and return the record."""


@dataclass
class FunctionSystem:
    """A function as a system."""

    name: str
    function: Callable[[Question], Awaitable[Record]]

    async def __call__(self, question: Question) -> Record:
        """Call the function."""
        return await self.function(question)


@dataclass
class Summary:
    """How `Run.ask` ended."""

    answered: int = 0
    failed: int = 0
    skipped: int = 0
    """Questions answered by an earlier call, rescored ones included."""
    rescored: int = 0
    """Questions of which only the golds changed."""
    asked_again: int = 0
    """Answered questions that changed, or whose passages did; they count as answered or failed, too."""
    gone: int = 0
    """Answers left out of the results because their questions left the data."""
    stopped: str = ""
    """Why the run ended early; "" if it did not."""
    spent: Mapping[str, Sequence[int]] = field(default_factory=dict)
    dollars: float | None = None

    @property
    def calls(self) -> int:
        """Model calls that the run has paid for."""
        return sum(counts[0] for counts in self.spent.values())

    @property
    def tokens(self) -> int:
        """Tokens, read and written, that the run has paid for."""
        return sum(sent + received for _, sent, received in self.spent.values())

    @property
    def exit_code(self) -> int:
        """0 if every question has an answer; 130 after Ctrl-C; else 1."""
        return 130 if self.stopped == INTERRUPTED else int(bool(self.failed or self.stopped))


class Run:
    """A run folder that is open for writing."""

    def __init__(
        self, folder: Path, settings: Mapping[str, Any], cache: Path | None = None, limits: Limits | None = None
    ) -> None:
        """Open or create the folder.

        Raises:
            UsageError: The folder holds a run with other settings, or another process writes to it.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.settings = folder, _redacted(json.loads(json.dumps(settings)))
        self._file = open_results(folder / "results.jsonl")
        try:
            write_settings(folder / "run.json", self.settings)
        except UsageError:
            os.close(self._file)
            raise
        self.limits = limits or Limits()
        """The budget of the run, over all resumptions, except that `timeout` starts again with each. Calls in flight when a
        limit is reached are finished and paid for."""
        self.prices: dict[str, Price] = {}
        """Prices by model."""
        self._began = time.monotonic()
        self.closing = AsyncExitStack()
        """Closes the run's clients, in its event loop."""
        self.done: dict[tuple[str, str], Record] = {}
        """Hashes, calls and seconds of each question and system with an answer."""
        self.failed: set[tuple[str, str]] = set()
        for record in read_results(folder):
            key = (record["id"], record["system"])
            if record["error"]:
                self.failed.add(key)
            else:
                self.done[key] = {name: record[name] for name in ("hashes", "calls", "seconds")}
        # The run's own file needs no name for the run, so the folder can be moved.
        name = str(folder.resolve()) if cache else ""
        self.cache = ReplyCache(cache or folder / "replies.sqlite", run=name)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        """Close the files, so that another process may resume."""
        os.close(self._file)
        self.cache.close()

    def cost(self) -> float | None:
        """Return the cost of the calls in US dollars; None if a model has no price."""
        spent = self.cache.spent
        if not spent.keys() <= self.prices.keys():
            return None
        return sum(self.prices[model].of(sent, received) for model, (_, sent, received) in spent.items())

    def summary(self) -> Summary:
        """Return what the run has cost."""
        return Summary(spent=self.cache.spent, dollars=self.cost())

    def check_limits(self) -> None:
        """Raise `Stopped` if the budget is spent."""
        now, seconds = self.summary(), time.monotonic() - self._began
        if limit := self.limits.reached(now.calls, now.tokens, now.dollars or 0.0, seconds):
            raise Stopped(f"the budget is spent: {limit}={getattr(self.limits, limit):g}")

    def write(self, record: Record) -> None:
        """Append a record with one system call, so that a killed process leaves complete lines."""
        os.write(self._file, (json.dumps(record, ensure_ascii=False) + "\n").encode(errors="replace"))

    def conduct(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end, and close the clients; if a loop is running, as in a notebook, in a thread."""

        async def closed() -> Result:
            threads = ThreadPoolExecutor(_THREADS)  # asyncio's own pool has four threads more than cores
            asyncio.get_running_loop().set_default_executor(threads)
            async with self.closing:
                return await work

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(closed())
        with start_blocking_portal() as portal:  # cancels the work on Ctrl-C
            return portal.call(closed)

    async def ask(
        self,
        questions: Iterable[Question],
        systems: Sequence[System],
        *,
        concurrency: int = 16,
        quiet: bool = False,
        complete: bool = True,
    ) -> Summary:
        """Ask every system its unanswered and changed questions, `concurrency` at a time; those that failed come last.

        If the questions are `complete`, answers to others leave the results.

        Raises:
            UsageError: `concurrency` is below 1.
        """
        if concurrency < 1:
            raise UsageError(f"concurrency must be at least 1, not {concurrency}")
        asked = list(questions)
        hashes = {question.id: question.hashes for question in asked}
        tasks = [
            self._task(question, system, {**hashes[question.id], "kb": getattr(system, "state", "")})
            for question in asked
            for system in systems
        ]
        todo = sorted((task for task in tasks if not task.is_done), key=lambda task: task.key in self.failed)
        loop = _Loop(self, todo, quiet)
        summary = loop.summary
        summary.skipped = len(tasks) - len(todo)
        summary.gone = self._leave_out(hashes) if complete else 0
        self.cache.gate[:] = [loop.check, self.check_limits]
        try:
            await loop.work(concurrency)
        finally:
            summary.spent = self.cache.spent
            summary.dollars = self.cost()
        return summary

    def _task(self, question: Question, system: System, hashes: Mapping[str, str]) -> _Task:
        return _Task(question, system, hashes, self.done.get((question.id, system.name)))

    def _leave_out(self, ids: Container[str]) -> int:
        """Leave questions with other ids out of the results, and return the number of answers."""
        others = [record for record in read_results(self.folder) if record["id"] not in ids]
        for record in others:
            self.write(gone(record))
        return sum(not record["error"] for record in others)


@dataclass(frozen=True)
class _Task:
    """A question that a system is asked."""

    question: Question
    system: System
    hashes: Mapping[str, str]
    """The question's, and the state of the knowledge base."""
    earlier: Record | None
    """Hashes, calls and seconds of an earlier answer."""

    @property
    def key(self) -> tuple[str, str]:
        """The ids of question and system."""
        return self.question.id, self.system.name

    @property
    def is_done(self) -> bool:
        """Whether there is an answer, and nothing changed since."""
        return self.earlier is not None and self.earlier["hashes"] == self.hashes

    @property
    def is_rescored(self) -> bool:
        """Whether there is an answer, and only the golds changed since."""
        return self.earlier is not None and {**self.earlier["hashes"], "golds": self.hashes["golds"]} == self.hashes


class _Loop:
    """One call of `Run.ask`."""

    def __init__(self, run: Run, todo: Sequence[_Task], quiet: bool) -> None:
        self.run, self.quiet = run, quiet
        self.total, self.todo = len(todo), iter(todo)
        self.summary, self.answered = Summary(), asyncio.Event()
        self.failures: list[Record] = []
        """Errors since the last answer."""

    def check(self) -> None:
        """Raise `Stopped` if the run has ended: only calls in flight are finished."""
        if self.summary.stopped:
            raise Stopped(self.summary.stopped)

    async def work(self, concurrency: int) -> None:
        """Ask `concurrency` questions at a time; all except the first few wait for a first answer."""
        with _progress(self.total, self.summary, self.quiet) as advance, _interruptible(self.summary):
            workers = [asyncio.create_task(self._worker(number, advance)) for number in range(concurrency)]
            for first in workers[:_FIRST]:
                first.add_done_callback(lambda _: self.answered.set())
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)

    async def _worker(self, number: int, advance: Callable[[], None]) -> None:
        if number >= _FIRST:
            await self.answered.wait()
        for task in self.todo:
            if self.summary.stopped:
                return
            record = await self._record(task)
            if record is None:
                return
            self.run.write(record)
            self._count(task, record)
            advance()

    def _count(self, task: _Task, record: Record) -> None:
        summary = self.summary
        summary.asked_again += task.earlier is not None and not task.is_rescored
        if not record["error"]:
            summary.answered += not task.is_rescored
            summary.rescored += task.is_rescored
            summary.skipped += task.is_rescored
            self.failures.clear()
            self.answered.set()
            return
        summary.failed += 1
        self.failures.append(record["error"])
        none_yet = not (summary.answered or self.run.done)
        summary.stopped = summary.stopped or _why_hopeless(self.failures, self.total if none_yet else 0)

    async def _record(self, task: _Task) -> Record | None:
        """Return a question's record; None if the run has ended."""
        began = time.perf_counter()
        with asking() as calls:
            try:
                fields = await task.system(task.question)
            except Stopped as error:
                self.summary.stopped = self.summary.stopped or str(error)
                return None
            except Exception as error:  # noqa: BLE001 - one question's failure does not end the run
                if reason := why_no_more(error):
                    self.summary.stopped = f"{reason}: {server_text(error)}"
                    return None
                fields = {"error": describe(error)}
        paid, seconds = calls.paid, round(time.perf_counter() - began, 3)
        if task.earlier and task.is_rescored:  # most replies came from the cache
            paid, seconds = paid + task.earlier["calls"], task.earlier["seconds"]
        return {
            "at": task.question.at,
            "id": task.question.id,
            "system": task.system.name,
            "hashes": task.hashes,
            "error": None,
            **fields,
            "scores": finite(fields.get("scores") or {}),
            "calls": paid,
            "seconds": seconds,
        }


@contextmanager
def _interruptible(summary: Summary) -> Iterator[None]:
    """Let the first Ctrl-C end the run after the calls in flight, which are paid for, and the second end it at once."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        summary.stopped = INTERRUPTED

    with suppress(NotImplementedError, RuntimeError, ValueError):  # not in threads, not on Windows
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        with suppress(NotImplementedError, RuntimeError, ValueError):
            loop.remove_signal_handler(signal.SIGINT)


def why_no_more(error: BaseException) -> str:
    """Return why no further call can succeed; "" if one may."""
    status = status_of(error) or 0
    text = f"{getattr(error, 'code', '')} {getattr(error, 'body', '')} {error}"
    if status == 429 and "insufficient_quota" in text:
        return _REFUSED[402]
    return _REFUSED.get(status, "")


def _why_hopeless(failures: Sequence[Record], first: int) -> str:
    """Return why a run should end after failures in a row; "" if it may go on.

    `first` is the number of questions if none has been answered yet, else 0.
    """
    messages = [failure["text"] for failure in failures]
    same = len(set(messages)) == 1 and all(failure["refused"] for failure in failures)
    if first and same and len(messages) >= min(_FIRST, first):
        return f"none of the first {len(messages)} questions was answered: {messages[0]}"
    if len(messages) >= _MAX_FAILURES:
        return f"{len(messages)} questions in a row failed: {max(set(messages), key=messages.count)}"
    return ""


def describe(error: Exception) -> Record:
    """Return an error as part of a record, in the server's own words if there are any."""
    status = status_of(error)
    unreached = status is None and is_transient(error)
    refused = isinstance(error, RagweaveError) or unreached or (400 <= (status or 0) < 500 and status != 429)
    return {"kind": type(error).__name__, "status": status, "text": server_text(error)[:500], "refused": refused}


@contextmanager
def _progress(total: int, summary: Summary, quiet: bool) -> Iterator[Callable[[], None]]:
    screen = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TextColumn("[red]{task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=screen, disable=quiet or not screen.is_terminal) as bar:
        task = bar.add_task("", total=total)

        def advance() -> None:
            bar.update(task, advance=1, description=f"{summary.failed} failed" if summary.failed else "")

        yield advance
