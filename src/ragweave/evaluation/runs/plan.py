"""Planning a run: its data set read through and checked, its settings written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Dataset, open_dataset
from ragweave.evaluation.datasets.dataset import parse_spec
from ragweave.evaluation.runs.closed_book import not_answered_in
from ragweave.evaluation.runs.parts import digests, settled_models, settled_systems
from ragweave.evaluation.runs.scorers import settled_scorer
from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.systems import System
from ragweave.tools.knowledge import KnowledgeBase


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
        **settings: More of `RunSettings`.

    Raises:
        UsageError: The data set is bad or empty, a setting or trained part is, or gold passages
            are asked for where there are none.
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
        scorer=settled_scorer(scorer),
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
