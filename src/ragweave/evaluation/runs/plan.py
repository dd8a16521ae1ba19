"""Planning a run: its data set read through and checked, its settings written down.

Which questions a model answers without context: those that a study of contexts leaves out.

Source: Liu et al. 2024 (Post-fusion as Fallback), section 4.1: of the development sets, questions
that can be answered without context are removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ragweave.datasets import Dataset, open_dataset
from ragweave.datasets.dataset import parse_spec
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS, Metric, chosen_metrics
from ragweave.evaluation.runs.directory import RunDirectory, records_of
from ragweave.evaluation.runs.settings import (
    RunSettings,
    System,
    digests,
    settled_models,
    settled_systems,
    versions,
)
from ragweave.graphs import METHODS
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.scorers.specs import absolute_scorer

_RIGHT = ("em", "accuracy", "coverage_em")


def not_answered_in(run: Path, dataset: Dataset) -> tuple[int, ...]:
    """Return the positions of the questions that `direct` did not get right in an earlier run.

    Raises:
        UsageError: The run is none, is of another data set, asked no question without context, is
            not complete, or none of its questions is left.
    """
    directory = RunDirectory(run)
    settings = directory.settings
    if settings.dataset_hash != dataset.hash:
        raise UsageError(f"{run}: is a run over another data set ({settings.dataset})")
    label = _without_context(settings, run)
    right = {
        record["at"]: _is_right(record, run)
        for record in records_of([directory.results])
        if record["system"] == label and not record["error"]
    }
    if len(right) < settings.planned:
        raise UsageError(
            f"{run}: {len(right)} of {settings.planned} questions are answered by {label}: finish "
            f"it first with `ragweave eval --resume {run}`"
        )
    left = tuple(sorted(at for at, said in right.items() if not said))
    if not left:
        raise UsageError(f"{run}: {label} answered every question: none is left to ask")
    return left


def _without_context(settings: RunSettings, run: Path) -> str:
    for one in settings.systems if settings.passages == "searched" else ():
        if one.method == "direct" and not getattr(one.resolved(), "retrieve", True):
            return one.label
    raise UsageError(f"{run}: asks no question without context: run --methods direct first")


def _is_right(record: dict[str, Any], run: Path) -> bool:
    for name in _RIGHT:
        if name in record["scores"]:
            return bool(record["scores"][name] == 1.0)
    raise UsageError(f"{run}: its answers are texts, and none of them is simply right or wrong")


def plan(
    spec: str,
    systems: Sequence[System],
    models: Mapping[str, str],
    *,
    kb: Path | None = None,
    corpus: str = "",
    passages: str = "searched",
    gold: str = "as_found",
    drop_answered: Path | None = None,
    scorer: str = "",
    metrics: Sequence[str | Metric] = (),
    **settings: Any,
) -> RunSettings:
    """Return the settings of a new run; reads the data set through once and checks every row.

    Args:
        spec: The data set's spec (`open_dataset`).
        systems: What is compared.
        models: Model specs by role; `answer` at least. Folders of trained parts among them, and
            among the systems' filters, become absolute.
        kb: Folder of a knowledge base to search.
        corpus: Where passages come from; "": the knowledge base where one is named, else the
            file where its questions have passages, else nowhere.
        passages: `given` hands each question's own passages to every method; labels say so.
        gold: What becomes of gold passages.
        drop_answered: An earlier run with `direct` in it: what that got right is not asked.
        scorer: Spec of what scores outputs for CXMI (`hf:NAME`); "": the answering model.
        metrics: What is computed, by name or declaration; none: all of ours that apply. A
            declaration that no package brings is handed to `evaluate` too.
        **settings: More of `RunSettings`.

    Raises:
        UsageError: The data set is bad or empty, a setting or trained part is, a metric is unknown,
            or gold passages are asked for where there are none.
    """
    dataset = open_dataset(spec)
    models, systems = settled_models(models), settled_systems(systems)
    if passages == "given":
        if corpus not in ("", "given") or kb is not None:
            raise UsageError("--passages given hands over each question's own: name no corpus")
        corpus = "given"
        systems = tuple(replace(one, label=f"{one.label} (passages given)") for one in systems)
    where = _corpus(corpus, kb, dataset)
    made = RunSettings(
        dataset=_absolute(spec),
        dataset_name=dataset.name,
        dataset_hash=dataset.hash,
        questions=dataset.size,
        systems=systems,
        models=models,
        parts=digests(models, systems),
        scorer=absolute_scorer(scorer),
        metrics=tuple(one.info for one in chosen_metrics(metrics)) if metrics else (),
        versions=versions() | _packages(systems, metrics),
        corpus=where,
        passages=passages,  # type: ignore[arg-type]
        gold=gold,  # type: ignore[arg-type]
        only=None if drop_answered is None else not_answered_in(drop_answered, dataset),
        gold_questions=None if gold == "as_found" else sum(bool(one.gold) for one in dataset),
        kb=str(kb.resolve()) if kb else "",
        kb_generation=_generation(kb) if kb else 0,
        **settings,
    )
    _check_passages(made, dataset)
    return made


def _check_passages(settings: RunSettings, dataset: Dataset) -> None:
    """Refuse what would silently do nothing."""
    if settings.corpus == "given" and not any(one.passages for one in dataset):
        raise UsageError(f"{settings.dataset}: its questions come without passages to be given")
    if settings.gold == "as_found":
        _check_orders(settings)
        return
    if settings.corpus == "none":
        raise UsageError(f"--gold {settings.gold} needs passages to search: name --kb or --corpus")
    if not settings.gold_questions:
        raise UsageError(
            f"--gold {settings.gold}: no question of {settings.dataset} names a gold passage; take "
            "a file that does, such as DPR's (positive_ctxs), or leave --gold out"
        )


def _packages(systems: Sequence[System], metrics: Sequence[str | Metric]) -> dict[str, str]:
    """Return the versions of the packages that bring the methods and metrics, but for ours."""
    listed = [METHODS.package(one.method) for one in systems]
    listed += [METRICS.package(one) for one in metrics if isinstance(one, str)]
    named = [one.rpartition(" ") for one in listed]
    return {name: version for name, _, version in named if version[:1].isdigit()}


def _check_orders(settings: RunSettings) -> None:
    """Refuse orders that move gold passages where none is marked."""
    for one in settings.systems:
        order = one.resolved().order
        if order.startswith("gold_") and settings.corpus in ("file", "kb"):
            raise UsageError(
                f"{one.label}: order={order} needs gold passages marked: --gold marked"
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
    return KnowledgeBase.open(kb).manifest.generation
