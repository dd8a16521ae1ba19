"""How one question of a run is answered and scored: by a graph, a judge and the metrics.

What is paid for, and how far a question has come, goes through the run's call broker and its
checkpoints; this is the same in the process that has the run's files and on a node of a cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ragweave.datasets import Dataset, Question
from ragweave.errors import MissingExtraError, PromptTooLongError, UsageError
from ragweave.evaluation.metrics import JUDGE_ROLE, Judgement, Metric, Price, Prices
from ragweave.evaluation.runs.broker import Broker, metered
from ragweave.evaluation.runs.judging import AnswerJudge
from ragweave.evaluation.runs.models import models_of
from ragweave.evaluation.runs.outcome import Record, answered, failed
from ragweave.evaluation.runs.passages import (
    given_passages,
    question_context,
    retriever_for,
    second_retriever_for,
    with_gold_setting,
)
from ragweave.evaluation.runs.plan import open_scorer
from ragweave.evaluation.runs.recorder import RecordingError, RunCheckpoints
from ragweave.evaluation.runs.settings import RunSettings, System, cache_name
from ragweave.evaluation.runs.stream import Job, Stopwatch, thread_of
from ragweave.graphs import CompiledGraph
from ragweave.graphs.build import build_graph
from ragweave.graphs.registry import arguments_for
from ragweave.nodes.options import Options
from ragweave.nodes.step import timing
from ragweave.state import RAGState
from ragweave.tools.journal import REFUSED, Slot
from ragweave.tools.models import ChatModel, status_of
from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.scorers import LogprobScorer
from ragweave.tools.warm_up import warm_up

_OUTPUTS = [key for key in RAGState.__annotations__ if key not in ("deadline", "remaining_steps")]
_ROLES = {"answer": "model"}


@dataclass(kw_only=True)
class Questions:
    """Answers the questions of a run."""

    settings: RunSettings
    graphs: Mapping[str, CompiledGraph]
    """By the systems' labels."""
    checkpoints: RunCheckpoints
    broker: Broker
    metrics: Sequence[Metric] | None = None
    """What is computed; None: all of ours."""
    judge: AnswerJudge | None = None
    """Who judges the answers for the judged metrics; None: nobody."""
    _prices: Prices = field(init=False)
    _options: Mapping[str, Options] = field(init=False)
    """Options by the systems' labels."""
    _own_type: frozenset[str] = field(init=False)
    """Labels of the systems whose options set the type of answer."""

    def __post_init__(self) -> None:
        """Read the prices and the systems' options."""
        pairs = self.settings.prices.items()
        self._prices = {role: Price(*pair) for role, pair in pairs}
        self._options = {one.label: one.resolved() for one in self.settings.systems}
        self._own_type = frozenset(
            one.label for one in self.settings.systems if "answer_type" in one.options
        )

    async def answer(self, job: Job, slot: Slot) -> Record:
        """Answer a question; return its record, that of a failure too.

        Raises:
            RagweaveError: The run has to stop: a setting is wrong, or nothing can be written.
            Exception: The model's server refuses every call.
        """
        index, question, system = job
        thread = thread_of(index, system)
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
        except Exception as error:
            if _ends_the_run(error):
                raise
            # Whatever it is, the question's record names it, and the run continues with the others.
            slot.leave()
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
                search_depth=self._options[system.label].search_depth(state),
                spent=spent,
                seconds=seconds,
                prices=self._prices,
                metrics=self.metrics,
                judgements=judgements,
            )
        record["node_seconds"] = watch.plain()
        if unfinished:  # its seconds are only those of the rest
            record["resumed"] = True
        return record

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
        k = self._options[system.label].given_depth
        passages = given_passages(question, self.settings, k)
        return given if passages is None else {**given, "passages": passages}


def _ends_the_run(error: Exception) -> bool:
    """Say whether other questions would end so too: a setting is wrong, nothing can be written."""
    if isinstance(error, PromptTooLongError):
        return False
    wrong = isinstance(error, RecordingError | UsageError | MissingExtraError)
    return wrong or status_of(error) in REFUSED


@asynccontextmanager
async def open_questions(
    settings: RunSettings,
    dataset: Dataset | None,
    broker: Broker,
    checkpoints: RunCheckpoints,
    *,
    models: Mapping[str, ChatModel] | None = None,
    retriever: PassageRetriever | None = None,
    metrics: Sequence[Metric] = (),
) -> AsyncIterator[Questions]:
    """Open a run's models and retriever and build its graphs, here; close what was opened.

    Args:
        settings: The run's settings.
        dataset: Its data set; None: nothing but the questions themselves is wanted of it.
        broker: What answers model calls that were paid for, and keeps new ones.
        checkpoints: Where graphs keep how far they have come.
        models: Chat models by role in the place of the settings'.
        retriever: A retriever in the place of the settings'.
        metrics: What is computed.
    """
    retriever = with_gold_setting(retriever or retriever_for(settings, dataset), settings)
    second = with_gold_setting(second_retriever_for(settings), settings)
    scorer = await asyncio.to_thread(open_scorer, settings.scorer)
    judges = {JUDGE_ROLE: settings.judge_model} if settings.judge_model else {}
    async with models_of({**settings.models, **judges}, models or {}) as opened:
        graphs = _graphs(settings, opened, (retriever, second), scorer, checkpoints, broker)
        await asyncio.to_thread(warm_up, [retriever, second, *opened.values()])
        yield Questions(
            settings=settings,
            graphs=graphs,
            checkpoints=checkpoints,
            broker=broker,
            metrics=metrics,
            judge=_judge(settings, opened, metrics, broker),
        )


def _judge(
    settings: RunSettings,
    opened: Mapping[str, ChatModel],
    metrics: Sequence[Metric],
    broker: Broker,
) -> AnswerJudge | None:
    if JUDGE_ROLE not in opened:
        return None
    spec = cache_name(settings.judge_model, settings)
    return AnswerJudge(metered(opened[JUDGE_ROLE], spec, broker, JUDGE_ROLE), metrics)


def _graphs(
    settings: RunSettings,
    opened: Mapping[str, ChatModel],
    retrievers: tuple[PassageRetriever | None, PassageRetriever | None],
    scorer: LogprobScorer | None,
    checkpoints: RunCheckpoints,
    broker: Broker,
) -> dict[str, CompiledGraph]:
    """Build each system's graph; all share the models, and the retrievers of both searches."""
    shared: dict[str, Any] = {
        _ROLES.get(role, role): metered(opened[role], cache_name(spec, settings), broker)
        for role, spec in settings.models.items()
    }
    first, shared["second_retriever"] = retrievers
    return {
        system.label: build_graph(
            system.method,
            retriever=first,
            scorer=scorer,
            checkpointer=checkpoints,
            **arguments_for(system.method, shared),
            **system.options,
        )
        for system in settings.systems
    }
