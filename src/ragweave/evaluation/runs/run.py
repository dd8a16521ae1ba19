"""Evaluating: what a directory has is read back, what is left is answered."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Dataset, open_dataset
from ragweave.evaluation.metrics import Metric, chosen_metrics, infos_of
from ragweave.evaluation.runs.checkpoints import RunCheckpoints
from ragweave.evaluation.runs.clients import models_of
from ragweave.evaluation.runs.desk import Desk
from ragweave.evaluation.runs.directory import RunDirectory, hold
from ragweave.evaluation.runs.metered import metered
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.parts import check_parts, keyed
from ragweave.evaluation.runs.passages import retriever_for, with_gold_as_asked
from ragweave.evaluation.runs.recorder import Recorder, connect
from ragweave.evaluation.runs.replies import ReplyCache
from ragweave.evaluation.runs.results import Done, lines_of
from ragweave.evaluation.runs.scorers import open_scorer
from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.sitting import Purse, Sitting
from ragweave.evaluation.runs.stream import Stream
from ragweave.evaluation.runs.tally import Tally
from ragweave.graphs import CompiledGraph, build_graph
from ragweave.tools.models import ChatModel
from ragweave.tools.retrieval import PassageRetriever
from ragweave.tools.scorers import LogprobScorer

Tell = Callable[[Tally, Record | None], None]
"""Called with where the run stands: at its start (no record), then with each record."""

_ROLES = {"answer": "model"}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a sitting ended."""

    tally: Tally
    complete: bool
    """Whether every question is answered or recorded as failed; False: a budget ran out."""


async def evaluate(
    directory: RunDirectory,
    sitting: Sitting | None = None,
    *,
    models: Mapping[str, ChatModel] | None = None,
    retriever: PassageRetriever | None = None,
    metrics: Sequence[Metric] = (),
    tell: Tell = lambda _tally, _record: None,
) -> Ended:
    """Answer what is left of a run.

    Args:
        directory: The run, as `claim_directory` returned it.
        sitting: Concurrency, cache, budgets.
        models: Chat models by role (as in the settings), in the place of those that the
            settings' specs name.
        retriever: A retriever in the place of the settings'.
        metrics: Metrics of one's own that no package brings: those that the settings name are
            found here; where the settings name none, these are computed beside ours.
        tell: Called with where the run stands, at the start and with each result.

    Raises:
        UsageError: The run cannot go on: its data set has changed, a setting is wrong, another
            process is at work on it.
        RecordingError: The directory cannot be written; what is recorded stands.
    """
    sitting = sitting or Sitting()
    dataset = checked(directory.settings, sitting)
    with hold(directory):
        return await answer(
            directory,
            sitting,
            dataset,
            models=models,
            retriever=retriever,
            metrics=metrics,
            tell=tell,
        )


async def answer(
    directory: RunDirectory,
    sitting: Sitting,
    dataset: Dataset,
    *,
    part: tuple[int, int] = (1, 1),
    models: Mapping[str, ChatModel] | None = None,
    retriever: PassageRetriever | None = None,
    metrics: Sequence[Metric] = (),
    tell: Tell = lambda _tally, _record: None,
    enough: Callable[[], bool] = lambda: False,
) -> Ended:
    """Answer what is left of a run, or a worker's part of it; the caller holds the run.

    Args:
        directory: The run.
        sitting: Concurrency, cache, budgets.
        dataset: What `checked` returned.
        part: Which of how many workers this is.
        models: Chat models by role in the place of the settings'.
        retriever: A retriever in the place of the settings'.
        metrics: Metrics of one's own that no package brings.
        tell: Called with where the run stands, at the start and with each result.
        enough: Says whether no further question is to be begun.
    """
    settings = directory.settings
    computed = chosen_metrics([one.name for one in settings.metrics], metrics)
    done, tally = so_far(directory, settings, retry_failed=sitting.retry_failed)
    tell(tally, None)
    if tally.finished >= tally.planned:
        return Ended(tally=tally, complete=True)
    retriever = with_gold_as_asked(retriever or retriever_for(settings, dataset), settings)
    scorer = await asyncio.to_thread(open_scorer, settings.scorer)
    async with models_of(settings.models, models or {}) as opened:
        with _desk(directory, sitting) as desk:
            checkpoints = RunCheckpoints(desk.recorder, desk.state, desk.paid)
            _forget_finished(checkpoints, desk.recorder, done)
            graphs = _graphs(settings, opened, retriever, scorer, checkpoints, desk)
            purse = Purse(sitting, settings, tally, desk)

            def take(record: Record) -> None:
                tally.add(record)
                tell(tally, record)

            stream = Stream(
                settings=settings,
                dataset=dataset,
                graphs=graphs,
                recorder=desk.recorder,
                checkpoints=checkpoints,
                desk=desk,
                done=done,
                metrics=computed,
                concurrency=sitting.concurrency,
                part=part,
                retry_failed=sitting.retry_failed,
                spare=lambda: purse.spare() and not enough(),
                tell=take,
            )
            complete = await stream.run()
    return Ended(tally=tally, complete=complete)


def checked(settings: RunSettings, sitting: Sitting) -> Dataset:
    """Return a run's data set, once it is certain that the run can go on.

    Raises:
        UsageError: The data set or a trained part has changed, or a dollar budget has no prices.
    """
    check_parts(settings)
    if sitting.budget_usd is not None and not settings.prices:
        raise UsageError("--budget-usd needs prices: begin the run with --price INPUT,OUTPUT")
    dataset = open_dataset(settings.dataset)
    if dataset.hash != settings.dataset_hash:
        raise UsageError(
            f"{settings.dataset}: has changed since the run began; begin a new run in another "
            "directory"
        )
    return dataset


def so_far(
    directory: RunDirectory, settings: RunSettings, *, retry_failed: bool
) -> tuple[Done, Tally]:
    """Read back what is finished: a line at a time."""
    labels = [one.label for one in settings.systems]
    done = Done(labels, settings.questions)
    tally = Tally(planned=settings.planned * len(labels), metrics=tuple(infos_of(settings.metrics)))
    for record in lines_of(directory.results):
        at, label = record["at"], record["system"]
        if done.has(at, label, retry_failed=False):
            tally.failed -= 1
        tally.add(record, fresh=False)
        done.mark(at, label, ok=not record["error"])
    if retry_failed:
        tally.failed = 0
    return done, tally


@contextlib.contextmanager
def _desk(directory: RunDirectory, sitting: Sitting) -> Iterator[Desk]:
    """Open what a sitting writes to, and close it again."""
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(Recorder(directory.results, directory.state))
        state = stack.enter_context(contextlib.closing(connect(directory.state)))
        cache = None
        if sitting.cache is not None:
            cache = stack.enter_context(ReplyCache(sitting.cache))
        yield Desk(recorder, state, cache)


def _forget_finished(checkpoints: RunCheckpoints, recorder: Recorder, done: Done) -> None:
    """Drop the state of questions that were recorded just before the process ended."""
    for thread in list(checkpoints.unfinished):
        at, _, label = thread.partition("/")
        if done.has(int(at), label, retry_failed=True):
            checkpoints.unfinished.discard(thread)
            recorder.forget(thread)


def _graphs(
    settings: RunSettings,
    given: Mapping[str, ChatModel],
    retriever: PassageRetriever | None,
    scorer: LogprobScorer | None,
    checkpoints: RunCheckpoints,
    desk: Desk,
) -> dict[str, CompiledGraph]:
    """Build each system's graph; all share the models."""
    models: dict[str, Any] = {
        _ROLES.get(role, role): metered(given[role], keyed(spec, settings), desk)
        for role, spec in settings.models.items()
    }
    return {
        system.label: build_graph(
            system.method,
            retriever=retriever,
            scorer=scorer,
            checkpointer=checkpoints,
            **models,
            **system.options,
        )
        for system in settings.systems
    }
