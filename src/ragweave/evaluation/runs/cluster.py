"""A run whose questions are answered on the nodes of a Ray cluster.

This process, the driver, has the run's files as `evaluate` has them: it hands out questions, and
answers each model call that a node is about to make from what is kept, or takes down its reply
before the question goes on. So a lost node costs the calls that it was just making, budgets count
the calls of all nodes, and a run can be resumed with or without Ray.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain_core.messages import BaseMessage

from ragweave.datasets import Question, open_dataset
from ragweave.errors import RagweaveError, UsageError
from ragweave.evaluation.metrics import Price, chosen_metrics
from ragweave.evaluation.runs.broker import CallBroker, PendingCall
from ragweave.evaluation.runs.calls import Ledger, ModelCall
from ragweave.evaluation.runs.directory import RunDirectory, hold
from ragweave.evaluation.runs.outcome import Record, failed, spent_of
from ragweave.evaluation.runs.passages import needs_file
from ragweave.evaluation.runs.progress import RunConfig
from ragweave.evaluation.runs.questions import Questions, open_questions
from ragweave.evaluation.runs.recorder import Row, RunCheckpoints, connect
from ragweave.evaluation.runs.references import check_parts
from ragweave.evaluation.runs.run import OnProgress, RunResult, checked, work_through
from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.stream import Job, thread_of
from ragweave.nodes.options import Options
from ragweave.tools.cluster import Ask, LostNodeError, Pool, Work, connected
from ragweave.tools.journal import Slot, line_of
from ragweave.tools.knowledge import RetrieverSpec, open_knowledge_base
from ragweave.tools.models.specs import loads_weights


async def evaluate_on_ray(
    directory: RunDirectory,
    config: RunConfig | None = None,
    *,
    address: str,
    on_progress: OnProgress = lambda _progress, _record: None,
) -> RunResult:
    """Answer what is left of a run on the nodes of a Ray cluster.

    Models and retriever are those of the settings; each node opens its own.

    Args:
        directory: The run, as `claim_directory` returned it.
        config: Concurrency, cache, budgets, of all nodes together.
        address: `local`, `auto`, `HOST:PORT` or `ray://HOST:PORT` (`connected`).
        on_progress: Called with the run's progress, at the start and with each result.

    Raises:
        UsageError: As `evaluate`; or no cluster answers, or a node cannot open what the settings
            name.
        MissingExtraError: Ray is not installed.
        RecordingError: The directory cannot be written; what is recorded is kept.
        NoNodeError: All nodes were lost; what is recorded is kept.
        ProcessError: A node met an error that ends the run.
    """
    config = config or RunConfig()
    settings = directory.settings
    dataset = checked(settings, config)
    opening = _Opening(settings.plain(), needs_file(settings, dataset), config.cache is not None)

    @asynccontextmanager
    async def opened(
        broker: CallBroker, checkpoints: RunCheckpoints
    ) -> AsyncIterator[_ClusterQuestions]:
        whole = _loads_a_model(settings)
        with connected(address) as ray:
            async with Pool(ray, opening, jobs=config.concurrency, whole_nodes=whole) as pool:
                yield _ClusterQuestions(settings, broker, checkpoints, pool)

    with hold(directory):
        return await work_through(directory, config, dataset, opened, on_progress=on_progress)


def _loads_a_model(settings: RunSettings) -> bool:
    """Say whether what answers holds a model's weights, of which a node has room for one."""
    specs = [one for one in (*settings.models.values(), settings.judge_model) if one]
    return (
        bool(settings.scorer or settings.rerank)
        or any(map(loads_weights, specs))
        or any(_opens_a_model(one.known_options()) for one in settings.systems)
        or any(_encodes(kb, name) for kb, name in _searched(settings))
    )


def _opens_a_model(options: Options | None) -> bool:
    """Say whether a method's options name a trained filter, a router, or an encoder."""
    named = (getattr(options, name, "") for name in ("router", "embedding"))
    return any(named) or getattr(options, "filter", "") in ("own", "recomp", "provence")


def _searched(settings: RunSettings) -> Iterator[tuple[str, str]]:
    """Yield the knowledge bases that are searched, and each one's retriever."""
    yield settings.kb, settings.retriever
    if settings.second_retriever:
        again = RetrieverSpec.read(settings.second_retriever, settings.kb or None)
        yield again.kb, again.name


def _encodes(kb: str, retriever: str) -> bool:
    """Say whether a search of a knowledge base encodes the query in the process that asks."""
    if not kb or retriever == "bm25":
        return False
    with suppress(RagweaveError), open_knowledge_base(kb) as base:
        return base.settings.embedding is not None
    return False  # a node says what is wrong with it


@dataclass(frozen=True, slots=True)
class _QuestionJob:
    """A question, as it is sent to a node."""

    index: int
    question: Question
    system: str
    """The system's label."""
    unfinished: bool
    """Whether it was begun before."""
    checkpoint: Row | None
    """How far it had come then."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A node is about to make this call."""

    call: ModelCall


@dataclass(frozen=True, slots=True)
class _Opened:
    """The driver's answer to `_Open`."""

    number: int
    reply: BaseMessage | None
    """The reply that is kept; None: the node is to make the call."""


@dataclass(frozen=True, slots=True)
class _Close:
    """A call's reply; None: it failed."""

    number: int
    reply: BaseMessage | None


@dataclass(frozen=True, slots=True)
class _Keep:
    """How far a question has come."""

    checkpoint: Row


@dataclass
class _Underway:
    """A question under way on a node, as the driver sees it."""

    broker: CallBroker
    checkpoints: RunCheckpoints
    _calls: dict[int, PendingCall] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    async def serve(self, request: _Open | _Close | _Keep) -> _Opened | None:
        """Do what the run's call broker and checkpoints are asked for."""
        match request:
            case _Open(call):
                number, pending = next(self._numbers), await self.broker.open(call)
                if pending.reply is None:
                    self._calls[number] = pending
                return _Opened(number, pending.reply)
            case _Close(number, None):
                self.broker.fail(self._calls.pop(number))
            case _Close(number, BaseMessage() as reply):
                await self.broker.close(self._calls.pop(number), reply)
            case _Keep(row):
                self.checkpoints.keep(row)
        return None

    def lose(self) -> None:
        """Let others make the calls that were under way."""
        while self._calls:
            self.broker.fail(self._calls.popitem()[1])


@dataclass
class _ClusterQuestions:
    """Has questions answered by the nodes."""

    settings: RunSettings
    broker: CallBroker
    checkpoints: RunCheckpoints
    pool: Pool

    async def answer(self, job: Job, slot: Slot) -> Record:
        """Have a question answered; return its record."""
        index, question, system = job
        thread = thread_of(index, system)
        underway = _Underway(self.broker, self.checkpoints)

        def begun(attempt: int) -> _QuestionJob:
            if attempt:
                underway.lose()
                self.broker.abandon(thread)
                self.checkpoints.unfinished.add(thread)
            unfinished = thread in self.checkpoints.unfinished
            self.broker.begin(thread, unfinished=unfinished)
            row = self.checkpoints.row(thread) if unfinished else None
            return _QuestionJob(index, question, system.label, unfinished, row)

        prices = {role: Price(*pair) for role, pair in self.settings.prices.items()}
        try:
            line = await self.pool.do(begun, underway.serve, underway.lose)
        except LostNodeError as error:
            slot.leave()
            spent = self.broker.end(thread)
            return failed(
                index, question, system, error, spent=spent, seconds=0.0, prices=prices
            ) | {"node_seconds": {}}
        slot.leave()
        record: Record = json.loads(line)
        return record | spent_of(self.broker.end(thread), prices)


class _NodeBroker:
    """The run's call broker as a node has it: the driver is asked for all."""

    def __init__(self, *, shared: bool) -> None:
        self.shared = shared
        self.paid: set[str] = set()
        self.asks: dict[str, Ask] = {}
        """How the question of a thread speaks to the driver."""

    def begin(self, thread: str, *, unfinished: bool) -> None:
        """Do nothing: the driver has the ledger."""

    def end(self, thread: str) -> Ledger:
        """Return an empty ledger; the driver puts in what was spent."""
        self.paid.discard(thread)
        return Ledger()

    async def open(self, call: ModelCall) -> PendingCall:
        opened: _Opened = await self.asks[call.thread](_Open(call))
        if opened.reply is not None:
            self.paid.add(call.thread)
        return _NumberedCall(call, opened.reply, number=opened.number)

    async def close(self, pending: PendingCall, message: BaseMessage) -> None:
        await self.asks[pending.call.thread](_Close(_number(pending), message))
        self.paid.add(pending.call.thread)

    def fail(self, pending: PendingCall) -> None:
        self.asks[pending.call.thread].tell(_Close(_number(pending), None))

    def put(self, thread: str, _sql: str, make: Callable[[], Row | None]) -> None:
        """Send a checkpoint to the driver."""
        row = make()
        if row is not None:
            self.asks[thread].tell(_Keep(row))


@dataclass(slots=True)
class _NumberedCall(PendingCall):
    """A call under way on a node, with its number at the driver."""

    number: int = 0


def _number(pending: PendingCall) -> int:
    assert isinstance(pending, _NumberedCall)  # noqa: S101 - `open` made it
    return pending.number


@dataclass(frozen=True)
class _Opening:
    """Opens on a node what answers a run's questions."""

    settings: dict[str, Any]
    file: bool
    """Whether the data set's file is read there."""
    shared: bool

    async def __call__(self) -> Work:
        settings = RunSettings.from_plain(self.settings)
        check_parts(settings)
        dataset = open_dataset(settings.dataset) if self.file else None
        if dataset is not None and dataset.hash != settings.dataset_hash:
            raise UsageError(f"{settings.dataset}: is another file on a node than on this machine")
        broker = _NodeBroker(shared=self.shared)
        state = connect(Path(":memory:"))
        checkpoints = RunCheckpoints(broker, state, broker.paid)
        stack = AsyncExitStack()  # what it opened stays open for as long as the process lives
        metrics = chosen_metrics([one.name for one in settings.metrics])
        questions = await stack.enter_async_context(
            open_questions(settings, dataset, broker, checkpoints, metrics=metrics)
        )
        return _NodeQuestions(questions, broker, checkpoints, stack)


@dataclass
class _NodeQuestions:
    """Answers questions on a node."""

    questions: Questions
    broker: _NodeBroker
    checkpoints: RunCheckpoints
    stack: AsyncExitStack

    async def __call__(self, job: _QuestionJob, ask: Ask) -> bytes:
        """Return a question's record as a line."""
        systems = {one.label: one for one in self.questions.settings.systems}
        system = systems[job.system]
        thread = thread_of(job.index, system)
        self.broker.asks[thread] = ask
        if job.unfinished:
            self.checkpoints.take_over(thread, job.checkpoint)
        try:
            slot = Slot(asyncio.Semaphore(0))
            record = await self.questions.answer((job.index, job.question, system), slot)
        finally:
            del self.broker.asks[thread]
            self.checkpoints.unfinished.discard(thread)
        return line_of(record, default=str)
