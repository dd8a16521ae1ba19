"""`evaluate`: read back what a run directory has, answer what is left."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from ragweave.datasets import Dataset, open_dataset
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import JUDGE_ROLE, Metric, chosen_metrics, infos_of
from ragweave.evaluation.runs.broker import CallBroker
from ragweave.evaluation.runs.calls import ReplyCache
from ragweave.evaluation.runs.directory import FinishedQuestions, RunDirectory, hold, lines_of
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.progress import Budget, Progress, RunConfig
from ragweave.evaluation.runs.questions import open_questions
from ragweave.evaluation.runs.recorder import Recorder, RunCheckpoints, connect
from ragweave.evaluation.runs.references import check_addresses, check_parts
from ragweave.evaluation.runs.settings import RunSettings, System
from ragweave.evaluation.runs.stream import Job, Stream
from ragweave.graphs.build import method_named
from ragweave.tools.journal import Slot
from ragweave.tools.models import ChatModel
from ragweave.tools.retrieval import PassageRetriever

OnProgress = Callable[[Progress, Record | None], None]
"""Called with the run's progress: at the start (no record), then with each record."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """What a session of a run came to."""

    progress: Progress
    complete: bool
    """Whether every question is answered or recorded as failed; False: a budget was spent."""


async def evaluate(
    directory: RunDirectory,
    config: RunConfig | None = None,
    *,
    models: Mapping[str, ChatModel] | None = None,
    retriever: PassageRetriever | None = None,
    metrics: Sequence[Metric] = (),
    on_progress: OnProgress = lambda _progress, _record: None,
) -> RunResult:
    """Answer what is left of a run.

    Args:
        directory: The run, as `claim_directory` returned it.
        config: Concurrency, cache, budgets.
        models: Chat models by role (as in the settings, and `evaluator` for the judge of the
            judged metrics), in the place of those that the settings' specs name.
        retriever: A retriever in the place of the settings'.
        metrics: Metrics of one's own: those that the settings name are found here; where the
            settings name none, these are computed besides ours.
        on_progress: Called with the run's progress, at the start and with each result.

    Raises:
        UsageError: The run cannot be resumed: its data set has changed, a setting is wrong, or
            another process is working on it.
        RecordingError: The directory cannot be written; what is recorded is kept.
    """
    config = config or RunConfig()
    dataset = checked(directory.settings, config)
    with hold(directory):
        return await answer(
            directory,
            config,
            dataset,
            models=models,
            retriever=retriever,
            metrics=metrics,
            on_progress=on_progress,
        )


async def answer(
    directory: RunDirectory,
    config: RunConfig,
    dataset: Dataset,
    *,
    part: tuple[int, int] = (1, 1),
    models: Mapping[str, ChatModel] | None = None,
    retriever: PassageRetriever | None = None,
    metrics: Sequence[Metric] = (),
    on_progress: OnProgress = lambda _progress, _record: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Answer what is left of a run, or of a worker's part of it; the caller holds the lock.

    Args:
        directory: The run.
        config: Concurrency, cache, budgets.
        dataset: What `checked` returned.
        part: Which of how many workers this is.
        models: Chat models by role in the place of the settings'.
        retriever: A retriever in the place of the settings'.
        metrics: Metrics of one's own.
        on_progress: Called with the run's progress, at the start and with each result.
        stop: Returns whether no further question should begin.
    """
    settings = directory.settings
    computed = chosen_metrics([one.name for one in settings.metrics], metrics)

    def opened(broker: CallBroker, checkpoints: RunCheckpoints) -> AbstractAsyncContextManager[Any]:
        return open_questions(
            settings,
            dataset,
            broker,
            checkpoints,
            models=models,
            retriever=retriever,
            metrics=computed,
        )

    return await work_through(
        directory, config, dataset, opened, part=part, on_progress=on_progress, stop=stop
    )


class Answering(Protocol):
    """What answers the questions of a run: here, or on the nodes of a cluster."""

    async def answer(self, job: Job, slot: Slot) -> Record:
        """Answer a question; return its record."""
        ...


async def work_through(
    directory: RunDirectory,
    config: RunConfig,
    dataset: Dataset,
    opened: Callable[[CallBroker, RunCheckpoints], AbstractAsyncContextManager[Answering]],
    *,
    part: tuple[int, int] = (1, 1),
    on_progress: OnProgress = lambda _progress, _record: None,
    stop: Callable[[], bool] = lambda: False,
) -> RunResult:
    """Have what is left of a run answered, and record it; the caller holds the lock.

    Args:
        directory: The run.
        config: Concurrency, cache, budgets.
        dataset: What `checked` returned.
        opened: Opens what answers, given the run's call broker and checkpoints.
        part: Which of how many workers this is.
        on_progress: Called with the run's progress, at the start and with each result.
        stop: Returns whether no further question should begin.
    """
    settings = directory.settings
    done, progress = so_far(directory, settings, retry_failed=config.retry_failed)
    on_progress(progress, None)
    if progress.finished >= progress.planned:
        return RunResult(progress=progress, complete=True)
    with _broker(directory, config) as broker:
        checkpoints = RunCheckpoints(broker.recorder, broker.state, broker.paid)
        _forget_finished(checkpoints, broker.recorder, done)
        budget = Budget(config, settings, progress, broker)

        def take(record: Record) -> None:
            progress.add(record)
            on_progress(progress, record)

        async with opened(broker, checkpoints) as answering:
            stream = Stream(
                settings=settings,
                dataset=dataset,
                answer=answering.answer,
                recorder=broker.recorder,
                done=done,
                concurrency=config.concurrency,
                part=part,
                retry_failed=config.retry_failed,
                may_begin=lambda: budget.has_room() and not stop(),
                on_record=take,
            )
            complete = await stream.run()
    return RunResult(progress=progress, complete=complete)


def checked(settings: RunSettings, config: RunConfig) -> Dataset:
    """Return a run's data set, after checking that the run can be resumed.

    Raises:
        UsageError: The data set, a trained part, a file or a server has changed, or a dollar budget
            has no prices.
    """
    settings.check_current()
    check_parts(settings)
    check_addresses(settings)
    if config.budget_usd is not None:
        _check_prices(settings)
    dataset = open_dataset(settings.dataset)
    if dataset.hash != settings.dataset_hash:
        raise UsageError(
            f"{settings.dataset}: has changed since the run began; start a new run in another "
            "directory"
        )
    _check_size(settings, dataset)
    _check_ids(settings, dataset)
    return dataset


def _check_ids(settings: RunSettings, dataset: Dataset) -> None:
    """Check that the file of ids lists what it did: records name questions by their places."""
    listed = "" if dataset.selection is None else dataset.selection.ids_hash
    if not listed:
        return
    # Runs of earlier versions recorded how many there were, and not which.
    same = listed == settings.ids_hash if settings.ids_hash else dataset.size == settings.questions
    if not same:
        raise UsageError(
            f"{settings.dataset}: the list of ids has changed since the run began; start a new run "
            "in another directory"
        )


def _check_size(settings: RunSettings, dataset: Dataset) -> None:
    """Check that a hub data set selects as many questions as it did: its hash is its name alone."""
    selects = settings.dataset.startswith("hf:") and dataset.selection is not None
    if selects and dataset.size != settings.questions:
        raise UsageError(
            f"{settings.dataset}: selects {dataset.size:,} questions, and the run began with "
            f"{settings.questions:,} (earlier versions asked all, whatever was selected): it can be "
            "reported, but not resumed; start a new run in another directory"
        )


def _roles_of(system: System) -> Iterator[str]:
    yield from method_named(system.method).roles(system.resolved())


_PRICED_AS = {"rewriter": "rewrite", "filter_model": "filter"}
"""The roles in which models are asked and priced that settings call by another name."""


def _check_prices(settings: RunSettings) -> None:
    if not settings.prices:
        raise UsageError("--budget-usd needs prices: start the run with --price INPUT,OUTPUT")
    named = [_PRICED_AS.get(name, name) for name in settings.models]
    # Who is given passages decides on no search, and prepares none.
    searching = settings.passages != "given"
    used = [role for one in settings.systems for role in _roles_of(one) if searching]
    asked = ["answer", *named, *used, *([JUDGE_ROLE] if settings.judge_model else [])]
    missing = [role for role in dict.fromkeys(asked) if role not in settings.prices]
    if missing and "*" not in settings.prices:
        raise UsageError(
            f"--budget-usd needs a price for each role: {', '.join(missing)} has none; start the "
            "run with --price INPUT,OUTPUT, or with a file of prices by role, * for the rest"
        )


def so_far(
    directory: RunDirectory, settings: RunSettings, *, retry_failed: bool
) -> tuple[FinishedQuestions, Progress]:
    """Read back what is finished, a line at a time."""
    labels = [one.label for one in settings.systems]
    done = FinishedQuestions(labels, settings.questions)
    progress = Progress(
        planned=settings.planned * len(labels),
        metrics=tuple(infos_of(settings.metrics)),
        prices=settings.prices,
    )
    for record in lines_of(directory.results):
        index, label = record["at"], record["system"]
        if done.has(index, label, retry_failed=False):
            progress.failed -= 1
        progress.add(record, fresh=False)
        done.mark(index, label, ok=not record["error"])
    if retry_failed:
        progress.failed = 0
    return done, progress


@contextlib.contextmanager
def _broker(directory: RunDirectory, config: RunConfig) -> Iterator[CallBroker]:
    """Open the files that a session writes to, and close them afterwards."""
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(Recorder(directory.results, directory.state))
        state = stack.enter_context(contextlib.closing(connect(directory.state)))
        cache = None
        if config.cache is not None:
            cache = stack.enter_context(ReplyCache(config.cache))
        yield CallBroker(recorder, state, cache)


def _forget_finished(
    checkpoints: RunCheckpoints, recorder: Recorder, done: FinishedQuestions
) -> None:
    """Drop the state of questions that were recorded just before the process ended."""
    for thread in list(checkpoints.unfinished):
        index, _, label = thread.partition("/")
        if done.has(int(index), label, retry_failed=True):
            checkpoints.unfinished.discard(thread)
            recorder.forget(thread)
