"""A run as one stream of questions × systems, so that no question waits for a batch's slowest.

Each record also says how long each node worked (`NodeSeconds`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ragweave.datasets import Dataset, Question
from ragweave.errors import MissingExtraError, UsageError
from ragweave.evaluation.metrics import Judgement, Metric, Price, Prices
from ragweave.evaluation.runs.broker import CallBroker
from ragweave.evaluation.runs.directory import FinishedQuestions
from ragweave.evaluation.runs.judging import AnswerJudge
from ragweave.evaluation.runs.outcome import Record, answered, failed
from ragweave.evaluation.runs.passages import given_passages, question_context
from ragweave.evaluation.runs.recorder import Recorder, RecordingError, RunCheckpoints
from ragweave.evaluation.runs.settings import RunSettings, System
from ragweave.graphs import CompiledGraph
from ragweave.nodes.step import timing
from ragweave.state import RAGState
from ragweave.tools.journal import REFUSED, Slot, line_of, run_bounded
from ragweave.tools.models import status_of


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


_OUTPUTS = [key for key in RAGState.__annotations__ if key not in ("deadline", "remaining_steps")]

_Job = tuple[int, Question, System]


@dataclass(kw_only=True)
class Stream:
    """A run under way."""

    settings: RunSettings
    dataset: Dataset
    graphs: Mapping[str, CompiledGraph]
    """By the systems' labels."""
    recorder: Recorder
    checkpoints: RunCheckpoints
    broker: CallBroker
    done: FinishedQuestions
    concurrency: int
    metrics: Sequence[Metric] | None = None
    """What is computed; None: all of ours."""
    judge: AnswerJudge | None = None
    """Who judges the answers for the judged metrics; None: nobody."""
    part: tuple[int, int] = (1, 1)
    """Which of how many workers this is: every n-th question is its share."""
    retry_failed: bool = False
    may_begin: Callable[[], bool] = lambda: True
    """Whether another question may begin."""
    on_record: Callable[[Record], None] = lambda _record: None
    """Called with each record, once it is durable."""
    _prices: Prices = field(init=False)
    _k: Mapping[str, int] = field(init=False)
    """Passages a query, by the systems' labels."""
    _own_type: frozenset[str] = field(init=False)
    """Labels of the systems whose options set the type of answer."""

    def __post_init__(self) -> None:
        """Read the prices and the systems' options."""
        pairs = self.settings.prices.items()
        self._prices = {role: Price(*pair) for role, pair in pairs}
        self._k = {one.label: one.resolved().k for one in self.settings.systems}
        self._own_type = frozenset(
            one.label for one in self.settings.systems if "answer_type" in one.options
        )

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

    def _jobs(self) -> Iterator[_Job]:
        settings = self.settings
        drawn = None
        if settings.sample is not None:
            drawn = sorted(self.dataset.sample(settings.sample, settings.seed, settings.only))
        own, workers = self.part
        for place, (index, question) in enumerate(chosen(self.dataset, settings, drawn)):
            if place % workers != own - 1:
                continue
            for system in settings.systems:
                if not self.done.has(index, system.label, retry_failed=self.retry_failed):
                    yield index, question, system

    async def _one(self, job: _Job, slot: Slot) -> None:
        index, question, system = job
        thread = f"{index}/{system.label}"
        started = time.perf_counter()
        unfinished = thread in self.checkpoints.unfinished
        self.broker.begin(thread, unfinished=unfinished)
        watch = Stopwatch()
        try:
            with timing(watch), question_context(question):
                state = await self._state(question, system, thread, unfinished=unfinished)
            seconds = time.perf_counter() - started
            judgements = await self._judgements(question, state, thread)
            slot.leave()  # scoring and recording hold no other question up
        except (RecordingError, UsageError, MissingExtraError):
            raise
        except Exception as error:
            # Whatever it is, the question's record names it, and the run continues with the others.
            slot.leave()
            if status_of(error) in REFUSED:
                raise
            seconds = time.perf_counter() - started
            spent = self.broker.end(thread)
            record = failed(
                index, question, system, error, spent=spent, seconds=seconds, prices=self._prices
            )
        else:
            spent = self.broker.end(thread)
            record = answered(
                index,
                question,
                system,
                state,
                spent=spent,
                seconds=seconds,
                prices=self._prices,
                metrics=self.metrics,
                judgements=judgements,
            )
        record["node_seconds"] = watch.plain()
        line = line_of(record, default=str)
        await self.recorder.append(thread, line, forget=record["error"] is None)
        self.done.mark(index, system.label, ok=record["error"] is None)
        self.on_record(record)

    async def _judgements(
        self, question: Question, state: Mapping[str, Any], thread: str
    ) -> dict[str, Judgement]:
        if self.judge is None:
            return {}
        return await self.judge.judge(question, state, {"configurable": {"thread_id": thread}})

    async def _state(
        self, question: Question, system: System, thread: str, *, unfinished: bool
    ) -> Mapping[str, Any]:
        """Return the final state, from the start or from the checkpoint of an earlier process."""
        graph = self.graphs[system.label]
        config: Any = {"configurable": {"thread_id": thread}}
        given: dict[str, Any] | None = None
        if unfinished:
            saved = await graph.aget_state(config)
            unfinished = saved.created_at is not None
            if unfinished and not saved.tasks:  # `next` leaves out tasks that have written
                return dict(saved.values)
        if not unfinished:
            given = self._input(question, system)
        state = await graph.ainvoke(given, config, output_keys=_OUTPUTS, durability="async")
        return dict(state)

    def _input(self, question: Question, system: System) -> dict[str, Any]:
        given: dict[str, Any] = {"question": question.question}
        if system.label not in self._own_type:
            given["answer_type"] = question.answer_type
        if self.settings.oracle:
            given["gold_answers"] = list(question.answers)
        k = self._k[system.label]
        passages = given_passages(question, self.settings, k)
        return given if passages is None else {**given, "passages": passages}


def chosen(
    dataset: Dataset, settings: RunSettings, drawn: list[int] | None
) -> Iterator[tuple[int, Question]]:
    """Yield the questions of a run with their indices: limit or sample, then the shard."""
    part, parts = settings.shard
    wanted = None if drawn is None else set(drawn)
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
