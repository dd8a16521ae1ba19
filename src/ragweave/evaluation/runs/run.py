"""Evaluating: a plan is made, a directory claimed, the stream run, and gone on with later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Dataset, open_dataset
from ragweave.evaluation.datasets.dataset import parse_spec
from ragweave.evaluation.metrics import Price, cost
from ragweave.evaluation.runs.checkpoints import RunCheckpoints
from ragweave.evaluation.runs.desk import Desk
from ragweave.evaluation.runs.directory import RunDirectory, hold
from ragweave.evaluation.runs.metered import metered
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.passages import retriever_for
from ragweave.evaluation.runs.recorder import Recorder, connect
from ragweave.evaluation.runs.replies import ReplyCache
from ragweave.evaluation.runs.results import Done, lines_of
from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.stream import Stream
from ragweave.evaluation.runs.systems import System
from ragweave.evaluation.runs.tally import Tally
from ragweave.graphs import CompiledGraph, build_graph
from ragweave.tools.models import ChatModel, chat_model
from ragweave.tools.retrieval import PassageRetriever

Tell = Callable[[Tally, Record | None], None]
"""Called with where the run stands: at its start (no record), then with each record."""

_ROLES = {"answer": "model"}


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """How a run is gone on with; none of it bears on the results."""

    concurrency: int = 16
    """Questions × systems in flight at once."""
    cache: Path | None = None
    """File of replies that runs share."""
    budget_tokens: int | None = None
    """Tokens paid for, all sittings of the run together, from which on no question is begun."""
    budget_usd: float | None = None
    """The same in US dollars, by the run's prices."""
    retry_failed: bool = False

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            UsageError: A value is out of its range.
        """
        if self.concurrency < 1:
            raise UsageError(f"--concurrency must be at least 1, not {self.concurrency}")
        for name in ("budget_tokens", "budget_usd"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise UsageError(f"--{name.replace('_', '-')} must be above 0, not {value}")


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
    tell: Tell = lambda _tally, _record: None,
) -> Ended:
    """Answer what is left of a run.

    Args:
        directory: The run, as `claim_directory` returned it.
        sitting: Concurrency, cache, budgets.
        models: Chat models by role (as in the settings), in the place of those that the
            settings' specs name.
        retriever: A retriever in the place of the settings'.
        tell: Called with where the run stands, at the start and with each result.

    Raises:
        UsageError: The run cannot go on: its data set has changed, a setting is wrong, another
            process is at work on it.
        RecordingError: The directory cannot be written; what is recorded stands.
    """
    sitting = sitting or Sitting()
    settings = directory.settings
    if sitting.budget_usd is not None and not settings.prices:
        raise UsageError("--budget-usd needs prices: begin the run with --price INPUT,OUTPUT")
    dataset = _dataset(settings)
    with hold(directory):
        done, tally = _so_far(directory, settings, retry_failed=sitting.retry_failed)
        tell(tally, None)
        if tally.finished >= tally.planned:
            return Ended(tally=tally, complete=True)
        retriever = retriever or retriever_for(settings, dataset)
        with _desk(directory, sitting) as desk:
            checkpoints = RunCheckpoints(desk.recorder, desk.state)
            _forget_finished(checkpoints, desk.recorder, done)
            graphs = _graphs(settings, models or {}, retriever, checkpoints, desk)

            def take(record: Record) -> None:
                tally.add(record)
                tell(tally, record)

            stream = Stream(
                settings=settings,
                dataset=dataset,
                graphs=graphs,
                retriever=retriever,
                recorder=desk.recorder,
                checkpoints=checkpoints,
                desk=desk,
                done=done,
                concurrency=sitting.concurrency,
                retry_failed=sitting.retry_failed,
                spare=_Purse(sitting, settings, tally, desk).spare,
                tell=take,
            )
            complete = await stream.run()
    return Ended(tally=tally, complete=complete)


@dataclass
class _Purse:
    """The budgets: what was spent before this sitting, and since."""

    sitting: Sitting
    settings: RunSettings
    tally: Tally
    desk: Desk
    _tokens: int = field(init=False)
    _dollars: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens, self._dollars = self.tally.spent.paid_tokens, self.tally.cost

    def spare(self) -> bool:
        """Say whether another question may begin; those in flight are always finished."""
        tokens, dollars = self.sitting.budget_tokens, self.sitting.budget_usd
        if tokens is not None and self._tokens + self.desk.total.paid_tokens >= tokens:
            return False
        if dollars is None:
            return True
        prices = {role: Price(*pair) for role, pair in self.settings.prices.items()}
        return self._dollars + (cost(self.desk.total.paid, prices) or 0.0) < dollars


def _dataset(settings: RunSettings) -> Dataset:
    dataset = open_dataset(settings.dataset)
    if dataset.hash != settings.dataset_hash:
        raise UsageError(
            f"{settings.dataset}: has changed since the run began; begin a new run in another "
            "directory"
        )
    return dataset


def _so_far(
    directory: RunDirectory, settings: RunSettings, *, retry_failed: bool
) -> tuple[Done, Tally]:
    """Read back what is finished: a line at a time."""
    labels = [one.label for one in settings.systems]
    done = Done(labels, settings.questions)
    tally = Tally(planned=settings.planned * len(labels))
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
    checkpoints: RunCheckpoints,
    desk: Desk,
) -> dict[str, CompiledGraph]:
    """Build each system's graph; all share the models."""
    models: dict[str, Any] = {
        _ROLES.get(role, role): metered(given.get(role) or chat_model(spec), spec, desk)
        for role, spec in settings.models.items()
    }
    return {
        system.label: build_graph(
            system.method,
            retriever=retriever,
            checkpointer=checkpoints,
            **models,
            **system.options,
        )
        for system in settings.systems
    }


def plan(
    spec: str,
    systems: Sequence[System],
    models: Mapping[str, str],
    *,
    kb: Path | None = None,
    corpus: str = "",
    **settings: Any,
) -> RunSettings:
    """Return the settings of a new run; reads the data set through once and checks every row.

    Args:
        spec: The data set's spec (`open_dataset`).
        systems: What is compared.
        models: Model specs by role; `answer` at least.
        kb: Folder of a knowledge base to search.
        corpus: Where passages come from; "": the knowledge base where one is named, else the
            file where its questions have passages, else nowhere.
        **settings: More of `RunSettings`.

    Raises:
        UsageError: The data set is bad or empty, or a setting is.
    """
    dataset = open_dataset(spec)
    return RunSettings(
        dataset=_absolute(spec),
        dataset_name=dataset.name,
        dataset_hash=dataset.hash,
        questions=dataset.size,
        systems=tuple(systems),
        models=dict(models),
        corpus=_corpus(corpus, kb, dataset),
        kb=str(kb.resolve()) if kb else "",
        kb_generation=_generation(kb) if kb else 0,
        **settings,
    )


def _absolute(spec: str) -> str:
    """Return a spec that means the same in any working directory."""
    name, path, settings = parse_spec(spec)
    if name == "hf":
        return spec
    query = f"?{urlencode(settings)}" if settings else ""
    return f"{name}{':' if name else ''}{Path(path).resolve()}{query}"


def _corpus(corpus: str, kb: Path | None, dataset: Dataset) -> Any:
    if kb is not None and corpus not in ("", "kb"):
        raise UsageError(f"give --kb or --corpus {corpus}, not both")
    if corpus == "kb" and kb is None:
        raise UsageError("--corpus kb needs --kb DIR")
    if corpus or kb is not None:
        return corpus or "kb"
    first = next(iter(dataset), None)
    return "file" if first is not None and first.passages else "none"


def _generation(kb: Path) -> int:
    from ragweave.tools.knowledge import KnowledgeBase

    return KnowledgeBase.open(kb).manifest.generation
