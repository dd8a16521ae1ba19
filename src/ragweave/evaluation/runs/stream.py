"""A run as one stream of questions × systems, so that no question waits for a batch's slowest.

Each record also says how long each node worked (`NodeSeconds`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TypedDict

from ragweave.datasets import Dataset, Question
from ragweave.evaluation.runs.directory import FinishedQuestions
from ragweave.evaluation.runs.outcome import Record, thread_name
from ragweave.evaluation.runs.recorder import Recorder
from ragweave.evaluation.runs.settings import RunSettings, System
from ragweave.tools.journal import Slot, line_of, run_bounded


class NodeSeconds(TypedDict):
    """What one node took for one question."""

    runs: int
    """Its executions: branches, rounds, tries."""
    elapsed: float
    """Seconds in which at least one execution was under way: parallel executions count once."""
    total: float
    """Seconds of all executions together: parallel executions add up."""


@dataclass(slots=True)
class Stopwatch:
    """Records when a question's nodes ran; a `Clock` of `ragweave.nodes.step`."""

    _spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def __call__(self, name: str, began: float, ended: float) -> None:
        """Record an execution, in seconds of one clock."""
        self._spans.setdefault(name, []).append((began, ended))

    def plain(self) -> dict[str, NodeSeconds]:
        """Return what each node took, in the order in which they first ended."""
        return {name: _taken(spans) for name, spans in self._spans.items()}


def _taken(spans: list[tuple[float, float]]) -> NodeSeconds:
    elapsed, until = 0.0, float("-inf")
    for began, ended in sorted(spans):
        elapsed += max(0.0, ended - max(began, until))
        until = max(until, ended)
    total = sum(ended - began for began, ended in spans)
    return {"runs": len(spans), "elapsed": round(elapsed, 6), "total": round(total, 6)}


Job = tuple[int, Question, System]
"""A question's index in the data set, the question, and what answers it."""
AnswerOne = Callable[[Job, Slot], Awaitable[Record]]
"""Answers a question and returns its record; it may leave its slot early."""


@dataclass(kw_only=True)
class Stream:
    """A run under way."""

    settings: RunSettings
    dataset: Dataset
    answer: AnswerOne
    recorder: Recorder
    done: FinishedQuestions
    concurrency: int
    part: tuple[int, int] = (1, 1)
    """Which of how many workers this is: every n-th question is its share."""
    retry_failed: bool = False
    may_begin: Callable[[], bool] = lambda: True
    """Whether another question may begin."""
    on_record: Callable[[Record], None] = lambda _record: None
    """Called with each record, once it is durable."""

    async def run(self) -> bool:
        """Answer what is left; return whether all is done (False: a budget was spent).

        Raises:
            RagweaveError: The run has to stop: the directory cannot be written, a setting is
                wrong, the server refuses. What is recorded is kept.
        """
        return await run_bounded(
            self._jobs(),
            self._one,
            concurrency=self.concurrency,
            finishing=self.concurrency,
            may_begin=self.may_begin,
        )

    def _jobs(self) -> Iterator[Job]:
        own, workers = self.part
        for place, (index, question) in enumerate(chosen(self.dataset, self.settings)):
            if place % workers != own - 1:
                continue
            for system in self.settings.systems:
                if not self.done.has(index, system.label, retry_failed=self.retry_failed):
                    yield index, question, system

    async def _one(self, job: Job, slot: Slot) -> None:
        index, _, system = job
        record = await self.answer(job, slot)
        line = line_of(record, default=str)
        thread = thread_of(index, system)
        await self.recorder.append(thread, line, forget=record["error"] is None)
        self.done.mark(index, system.label, ok=record["error"] is None)
        self.on_record(record)


def thread_of(index: int, system: System) -> str:
    """Return the name of a question's thread, under which its state is kept."""
    return thread_name(index, system.label)


def chosen(dataset: Dataset, settings: RunSettings) -> Iterator[tuple[int, Question]]:
    """Yield the questions of a run with their indices: limit or sample, then the shard."""
    part, parts = settings.shard
    wanted = None
    if settings.sample is not None:
        wanted = dataset.sample(settings.sample, settings.seed, settings.only)
    included = None if settings.only is None else set(settings.only)
    asked = taken = 0
    for index, question in enumerate(dataset):
        if included is not None and index not in included:
            continue
        if settings.limit is not None and asked >= settings.limit:
            return
        asked += 1
        if wanted is not None and index not in wanted:
            continue
        if taken % parts == part - 1:
            yield index, question
        taken += 1
