"""Planning a run: the data set is read through and checked, and the settings are made.

A plan may leave out the questions that a model answers without context, as Liu et al. 2024
(Post-fusion as Fallback, section 4.1) do with the development sets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ragweave.datasets import Dataset, open_dataset
from ragweave.datasets.dataset import FORMATS, parse_spec
from ragweave.datasets.plain import PLAIN
from ragweave.datasets.recorded import RECORDED
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import METRICS, Metric, chosen_metrics
from ragweave.evaluation.runs.directory import RunDirectory, records_of
from ragweave.evaluation.runs.judging import check_judge
from ragweave.evaluation.runs.references import (
    absolute_model,
    absolute_reranker,
    absolute_systems,
    addresses,
    digests,
)
from ragweave.evaluation.runs.settings import (
    RunSettings,
    System,
    check_labels,
    versions,
)
from ragweave.evaluation.runs.stream import chosen
from ragweave.graphs import METHODS
from ragweave.graphs.registry import check_searches_again
from ragweave.names import MetricName
from ragweave.registry import Registry
from ragweave.tools.filters import FILTERS
from ragweave.tools.knowledge import RetrieverSpec, needs_kb, open_knowledge_base
from ragweave.tools.knowledge.servers import is_address
from ragweave.tools.models import MODELS
from ragweave.tools.scorers.specs import LogprobScorer, absolute_scorer, scorer_of_spec
from ragweave.tools.text.secrets import has_secret, redacted, without_secrets

_CORRECTNESS = ("em", "accuracy", "coverage_em")


def not_answered_in(run: Path, dataset: Dataset, made: RunSettings) -> tuple[int, ...]:
    """Return the indices of the questions that `direct` did not answer correctly in another run.

    Args:
        run: The other run's directory.
        dataset: The data set of the run that is planned.
        made: Its settings, with no question left out yet.

    Raises:
        UsageError: There is no such run, it is over another data set, has no answers without
            context, is not complete, did not ask all questions of this one, or leaves none.
    """
    directory = RunDirectory(run)
    settings = directory.settings
    if settings.source != made.source:
        raise UsageError(f"{run}: is a run over another data set ({settings.dataset})")
    label = _without_context(settings, run)
    right, failed = {}, set()
    for record in records_of([directory.results]):
        if record["system"] == label and record["error"]:
            failed.add(record["id"])
        elif record["system"] == label:
            right[record["id"]] = _is_right(record, run)
    if len(right) < settings.planned:
        again = " --retry-failed" if failed - right.keys() else ""
        raise UsageError(
            f"{run}: {label} has answered {len(right)} of {settings.planned} questions: finish the "
            f"run first with `ragweave eval --resume {run}{again}`"
        )
    _check_asked(run, right, dataset, made)
    left = tuple(index for index, one in enumerate(dataset) if right.get(one.id) is False)
    if not left:
        raise UsageError(f"{run}: {label} answered every question correctly: none is left to ask")
    return left


def _check_asked(run: Path, answered: Collection[str], dataset: Dataset, made: RunSettings) -> None:
    """Check that a run without context asked every question that another would ask."""
    wanted = [one.id for _, one in chosen(dataset, replace(made, shard=(1, 1)))]
    missing = sum(one not in answered for one in wanted)
    if missing:
        raise UsageError(
            f"{run}: did not ask {missing} of these {len(wanted)} questions: ask them all there, "
            "in one run without --shard, or give this run the same questions, --limit or --sample"
        )


def _without_context(settings: RunSettings, run: Path) -> str:
    for one in settings.systems if settings.passages == "searched" else ():
        if one.method == "direct" and not getattr(one.resolved(), "retrieve", True):
            return one.label
    raise UsageError(
        f"{run}: has no answers without context: evaluate --methods direct first, and name that run"
    )


def _is_right(record: dict[str, Any], run: Path) -> bool:
    for name in _CORRECTNESS:
        if name in record["scores"]:
            return bool(record["scores"][name] == 1.0)
    raise UsageError(f"{run}: its answers are long texts, which are not simply right or wrong")


def plan(
    spec: str,
    systems: Sequence[System],
    models: Mapping[str, str],
    *,
    kb: str | Path | None = None,
    corpus: str = "",
    passages: str = "searched",
    gold: str = "as_found",
    drop_answered: Path | None = None,
    second_retriever: str = "",
    scorer: str = "",
    metrics: Sequence[MetricName | Metric] = (),
    judge_model: str = "",
    rerank: str = "",
    own_retriever: bool = True,
    **settings: Any,
) -> RunSettings:
    """Return the settings of a new run; reads the data set once and checks every row.

    Args:
        spec: The data set's spec (`open_dataset`).
        systems: What is compared.
        models: Model specs by role; `answer` at least. Files and folders among them, and among the
            systems' options, become absolute.
        kb: Folder or address of a knowledge base to search.
        corpus: Where passages come from; "": the knowledge base where one is named, else the
            file where its questions have passages, else nowhere.
        passages: `given` gives each question's own passages to every method; labels say so.
        gold: What becomes of gold passages.
        drop_answered: An earlier run of `direct`: the questions that it answered correctly are
            left out.
        second_retriever: Where `crag` looks again: a retriever over `kb`, another knowledge base,
            `RETRIEVER:KB`, or a retriever that needs none; "": where it looked first.
        scorer: Spec of what scores outputs for CXMI (`hf:NAME`); "": the answering model.
        metrics: What is computed, by name or declaration; none: all of ours that apply. A
            declaration of one's own must be passed to `evaluate` too.
        judge_model: Spec of the model that judges answers for judged metrics, such as
            `faithfulness`.
        rerank: Spec of a reranker; "": none.
        own_retriever: Whether `evaluate` may be given a retriever; without one, methods of ours
            that would find nothing to search are refused.
        **settings: More of `RunSettings`.

    Raises:
        UsageError: The data set, a setting or a trained part is bad, two systems have the same
            label, a metric is unknown or has no judge, gold passages are wanted where there are
            none, or no method would use the second retriever.
    """
    check_secrets({**models, "scorer": scorer, "judge_model": judge_model})
    check_labels(systems)
    computed = chosen_metrics(metrics)
    check_judge(judge_model, computed, named=bool(metrics))
    dataset = open_dataset(spec)
    models = {role: absolute_model(one) for role, one in models.items()}
    systems = absolute_systems(systems)
    if passages == "given":
        if corpus not in ("", "given") or kb is not None:
            raise UsageError(
                "--passages given uses each question's own passages: leave out --corpus and --kb"
            )
        corpus = "given"
        systems = tuple(replace(one, label=f"{one.label} (passages given)") for one in systems)
    where = _corpus(corpus, kb, dataset)
    again = _second(second_retriever, kb, systems, given=passages == "given")
    judge_model, scorer = absolute_model(judge_model), absolute_scorer(scorer)
    others = [one for one in (judge_model, scorer) if one]
    made = RunSettings(
        dataset=_absolute(spec),
        dataset_name=dataset.name,
        dataset_hash=dataset.hash,
        questions=dataset.size,
        ids_hash="" if dataset.selection is None else dataset.selection.ids_hash,
        systems=systems,
        models=models,
        parts=digests(models, systems, others),
        addresses=addresses([*models.values(), *([judge_model] if judge_model else [])], scorer),
        scorer=scorer,
        metrics=tuple(one.info for one in computed) if metrics else (),
        judge_model=judge_model,
        rerank=absolute_reranker(rerank),
        versions=versions(),
        corpus=where,
        passages=passages,  # type: ignore[arg-type]
        gold=gold,  # type: ignore[arg-type]
        gold_questions=None if gold == "as_found" else sum(bool(one.gold) for one in dataset),
        kb=_lasting(kb) if kb else "",
        kb_state=_state(kb),
        second_retriever=str(again or ""),
        second_state=_state(again.kb if again is not None else None),
        **settings,
    )
    names = [one if isinstance(one, str) else one.name for one in metrics]
    made = replace(made, versions={**made.versions, **_packages(made, names, dataset)})
    if drop_answered is not None:
        made = replace(made, only=not_answered_in(drop_answered, dataset, made))
    _check_passages(made, dataset)
    if not own_retriever:
        _check_searchable(made, dataset)
    return made


def check_secrets(specs: Mapping[str, str]) -> None:
    """Refuse specs that hold a secret, which the run's directory would keep.

    Args:
        specs: Model specs by what each is for.

    Raises:
        UsageError: One holds a key or password.
    """
    for role, spec in specs.items():
        if has_secret(spec):
            raise UsageError(
                f"{redacted(spec)} ({role}): holds a key or password, which the run's directory "
                "would keep: give it by the environment instead (OPENAI_API_KEY, OPENAI_BASE_URL)"
            )


def _check_passages(settings: RunSettings, dataset: Dataset) -> None:
    """Refuse settings that would silently do nothing."""
    if settings.corpus == "given" and not any(one.passages for one in dataset):
        raise UsageError(f"{settings.dataset}: its questions have no passages of their own to give")
    if settings.corpus == "given" and dataset.form.corpus is not None:
        raise UsageError(
            f"{settings.dataset}: its questions name their gold passages alone, which would all be "
            "found: search its collection (--corpus file) or a knowledge base (--kb)"
        )
    if settings.gold == "as_found":
        _check_orders(settings)
        return
    if settings.corpus == "none":
        raise UsageError(f"--gold {settings.gold} needs passages to search: name --kb or --corpus")
    if not settings.gold_questions:
        raise UsageError(
            f"--gold {settings.gold}: no question of {settings.dataset} has a gold passage; use a "
            "file that marks them, such as DPR's (positive_ctxs), or leave out --gold"
        )


def _check_searchable(settings: RunSettings, dataset: Dataset) -> None:
    """Refuse methods that search where there is nothing to search."""
    replayed = dataset.form is RECORDED
    if settings.corpus != "none" or replayed or not needs_kb(settings.retriever):
        return
    ours = {one.name for one in METHODS.ours()}
    for one in settings.systems:
        if one.method in ours and getattr(one.resolved(), "retrieve", True):
            raise UsageError(
                f"{one.label}: has nothing to search: name a knowledge base with --kb, or take a "
                "data set with passages"
            )


def _second(
    text: str, kb: str | Path | None, systems: Sequence[System], *, given: bool
) -> RetrieverSpec | None:
    """Return where methods look again, its place as the run's directory keeps it; None: nowhere.

    Raises:
        UsageError: No method would look there, or there is no such retriever.
    """
    if not text:
        return None
    check_searches_again(one.method for one in systems)
    if given:
        raise UsageError("--passages given searches nothing: leave out --second-retriever")
    found = RetrieverSpec.read(text, kb)
    return found.at(_lasting(found.kb)) if found.kb else found


def _packages(made: RunSettings, metrics: Sequence[str], dataset: Dataset) -> dict[str, str]:
    """Return the versions of the other packages that a run's methods and all else come from."""
    specs = [*made.models.values(), made.judge_model]
    used: list[tuple[Registry[Any], Iterable[object]]] = [
        (METHODS, (one.method for one in made.systems)),
        (METRICS, metrics),
        (FILTERS, (one.options.get("filter") for one in made.systems)),
        (MODELS, (one.partition("?")[0].partition(":")[0].strip() for one in specs)),
        (FORMATS, (dataset.form.name,)),
    ]
    listed = {
        registry.package(name)
        for registry, names in used
        for name in names
        if isinstance(name, str) and name in registry
    }
    named = [one.rpartition(" ") for one in sorted(listed)]
    return {name: version for name, _, version in named if version[:1].isdigit()}


def _check_orders(settings: RunSettings) -> None:
    """Refuse orders that move gold passages where none is marked."""
    for one in settings.systems:
        order = one.resolved().order
        if order.startswith("gold_") and settings.corpus in ("file", "kb"):
            raise UsageError(
                f"{one.label}: order={order} needs marked gold passages: add --gold marked"
            )


def _absolute(spec: str) -> str:
    """Return a spec that means the same in any working directory."""
    name, path, settings = parse_spec(spec)
    if name == "hf" and "ids" not in settings:
        return spec
    if "ids" in settings and name not in PLAIN:
        settings["ids"] = str(Path(settings["ids"]).resolve())
    query = f"?{urlencode(settings)}" if settings else ""
    place = path if name == "hf" else Path(path).resolve()
    return f"{name}{':' if name else ''}{place}{query}"


def _corpus(corpus: str, kb: str | Path | None, dataset: Dataset) -> Any:
    if kb is not None and corpus not in ("", "kb"):
        raise UsageError(f"give --kb or --corpus {corpus}, not both")
    if corpus == "kb" and kb is None:
        raise UsageError("--corpus kb needs --kb KB")
    if corpus or kb is not None:
        return corpus or "kb"
    first = next(iter(dataset), None)
    return "file" if first is not None and first.passages else "none"


def _state(kb: str | Path | None) -> str:
    """Return the name of a knowledge base's state."""
    if not kb:
        return ""
    with open_knowledge_base(kb) as base:
        return base.state


def _lasting(kb: str | Path) -> str:
    """Return a knowledge base's place as the run's directory stores it: no password, no `..`."""
    if not is_address(kb):
        return str(Path(kb).resolve())
    if without_secrets(str(kb)) != str(kb):
        raise UsageError(
            f"{without_secrets(str(kb))}: has a password, which the run's directory would store: "
            "give it by the environment instead (PGPASSWORD)"
        )
    return str(kb)


def open_scorer(spec: str) -> LogprobScorer | None:
    """Return the scorer that a spec names, tried once; None for "".

    Raises:
        UsageError: The spec is not understood, or its model is not on this machine.
        MissingExtraError: Its packages are not installed.
        ModelError: The model cannot be loaded, or its server gives no log-probabilities.
    """
    if not spec:
        return None
    scorer = scorer_of_spec(spec)
    scorer.score([("A bridge is a", " bridge.")])  # better now than at every question
    return scorer


def scores_itself(model: str) -> bool:
    """Say whether a chat model of this spec brings its scorer along."""
    return model.strip().partition("?")[0].partition(":")[0] in ("llamacpp", "smollm2")
