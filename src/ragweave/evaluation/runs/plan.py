"""Planning a run: its data set read through and checked, its settings written down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ragweave.errors import UsageError
from ragweave.evaluation.datasets import Dataset, open_dataset
from ragweave.evaluation.datasets.dataset import parse_spec
from ragweave.evaluation.runs.parts import digests, settled_models, settled_systems
from ragweave.evaluation.runs.settings import RunSettings
from ragweave.evaluation.runs.systems import System
from ragweave.tools.knowledge import KnowledgeBase
from ragweave.tools.scorers.specs import absolute_scorer


def plan(
    spec: str,
    systems: Sequence[System],
    models: Mapping[str, str],
    *,
    kb: Path | None = None,
    corpus: str = "",
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
        scorer: Spec of what scores outputs for CXMI (`hf:NAME`); "": the answering model.
        **settings: More of `RunSettings`.

    Raises:
        UsageError: The data set is bad or empty, or a setting or trained part is.
    """
    dataset = open_dataset(spec)
    models, systems = settled_models(models), settled_systems(systems)
    return RunSettings(
        dataset=_absolute(spec),
        dataset_name=dataset.name,
        dataset_hash=dataset.hash,
        questions=dataset.size,
        systems=systems,
        models=models,
        parts=digests(models, systems),
        scorer=absolute_scorer(scorer),
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
    return KnowledgeBase.open(kb).manifest.generation
