"""Published results next to ours, and how their settings differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ragweave.evaluation.published import PublishedResult, all_published
from ragweave.evaluation.report.summary import Column, Experiment, Table, Values
from ragweave.evaluation.runs.settings import RunSettings, System
from ragweave.graphs import METHODS
from ragweave.tools.models.specs import is_part_spec

_VARIANTS = frozenset(
    {
        "retrieve",
        "queries",
        "knowledge_filter",
        "rewrite",
        "question_judge",
        "claim_filter",
        "filter",
        "granularity",
    }
)
"""Options that make another row of a table."""

_LABELS = ("strinc", "lexical", "cxmi")
"""FILCO's measures: oracles where gold answers are handed over, labels in the paper's training."""


def published_for(settings: RunSettings, system: System) -> list[PublishedResult]:
    """Return the results published for this data set and method, under the same options."""
    if system.known_options() is None:
        return []
    return [
        one
        for one in all_published()
        if one.dataset == settings.dataset_name
        and one.method == system.method
        and _same_row(one, system)
        and (not one.oracle or settings.oracle)
        and (not one.table.endswith("with gold") or settings.gold == "with")
        and (not one.table.endswith("without gold") or settings.gold != "with")
    ]


def differences(one: PublishedResult, settings: RunSettings, system: System, n: int) -> list[str]:
    """Return how our setting differs from the published one."""
    return list(_differences(one, settings, system, n))


def _differences(
    one: PublishedResult, settings: RunSettings, system: System, n: int
) -> Iterator[str]:
    ours = settings.models["answer"]
    if not one.model or _plain(one.model) not in _plain(ours):
        yield f"model {one.model or 'not stated'}, here {ours}"
    chosen = system.resolved()
    searches = getattr(chosen, "retrieve", True)
    if searches:
        yield f"corpus {one.corpus}, here {_searched(settings)}"
    if one.n is None or one.n != n:
        yield f"sample {one.n or 'not stated'}, here {n}"
    if one.dropped and settings.only is None:
        yield f"{one.dropped} left out, here asked"
    if searches and one.k not in (None, chosen.k):
        yield f"k {one.k}, here {chosen.k}"
    yield from _gold_differences(settings)
    yield from _training_differences(one, settings, system)
    shots = getattr(chosen, "shots", None)
    if one.shots is not None and shots is not None and shots != one.shots:
        yield f"shots {one.shots}, here {shots}"
    if others := _other_options(one, system):
        yield f"options {', '.join(others)}"
    yield from _prompt_differences(system)


_OURS = frozenset({"react@blendfilter"})
"""Prompts of a paper's form in our words, as the paper prints none."""


def _prompt_differences(system: System) -> Iterator[str]:
    """Yield whose words the prompts are in (docs/limits.md says it prompt by prompt)."""
    chosen = system.resolved()
    names = METHODS[system.method].prompts.keys() - _OURS
    if not chosen.paper or not any(name.endswith(f"@{chosen.paper}") for name in names):
        yield "prompts: wording ours"
    elif chosen.paper == "post_fusion":
        yield "prompts: wording ours, the clause on Unknown as printed"
    else:
        examples = ", examples ours" if getattr(chosen, "shots", 0) else ""
        yield f"prompts: printed ones where the paper has them{examples}"


def _searched(settings: RunSettings) -> str:
    if settings.passages == "given":
        return "each question's own passages, handed over unsearched"
    named = {"file": "the data set's own passages", "given": "each question's own", "none": "none"}
    where = named.get(settings.corpus, settings.kb)
    how = "BM25" if settings.corpus in ("file", "given") else settings.retriever
    reranked = f", reranked by {settings.rerank}" if settings.rerank else ""
    return where if settings.corpus == "none" else f"{where}, {how}{reranked}"


def _gold_differences(settings: RunSettings) -> Iterator[str]:
    known = settings.gold_questions or 0
    if settings.gold == "with" and known < settings.questions:
        yield f"gold passage known for {known} of {settings.questions} questions"
    if settings.gold == "without":
        yield "gold passages taken out here"


def _training_differences(
    one: PublishedResult, settings: RunSettings, system: System
) -> Iterator[str]:
    here = {role: "trained" for role, spec in settings.models.items() if is_part_spec(spec)} | {
        "generator": "trained" if is_part_spec(settings.models["answer"]) else "untrained"
    }
    chosen = system.resolved()
    if getattr(chosen, "proxy_profile", "") == "released":
        here |= {"judge": "trained", "rewriter": "trained"}
    named = getattr(chosen, "filter", "")
    oracle = settings.oracle and named in _LABELS
    if named == "own":
        here["filter"] = "trained"
    for part in one.trained.split(", ") if one.trained else ():
        if part == "filter" and oracle:
            yield "filter trained, here an oracle"
        elif part == "filter" and named == "own" and one.row.lower() in _LABELS:
            yield f"filter trained on labels of {one.row}, here on its own"
        elif here.get(part, "untrained") != "trained":
            yield f"{part} trained, here untrained"


def _other_options(one: PublishedResult, system: System) -> list[str]:
    """Return the options that were set otherwise than they are in the row.

    What else is told in words is left out: k, shots, a trained filter, and a profile where the row
    says nothing of one.
    """
    chosen = system.resolved()
    theirs = type(chosen)(**one.options)
    told = {"k", "shots"} if "profile" in one.options else {"k", "shots", "profile"}
    return [
        f"{name}={getattr(chosen, name)}"
        for name in system.options
        if name not in told
        and getattr(chosen, name) != getattr(theirs, name)
        and (name, getattr(chosen, name)) != ("filter", "own")
    ]


def _same_row(one: PublishedResult, system: System) -> bool:
    """Say whether options make a row; a trained filter stands in any row of its kind."""
    chosen = system.resolved()
    plain = type(chosen)()
    variant = _variant(system)
    published = {
        name: value
        for name, value in one.options.items()
        if name in _VARIANTS and value != getattr(plain, name)
    }
    if variant.get("filter") == "own":
        published["filter"] = "own"
    points = {name: value for name, value in one.options.items() if name not in _VARIANTS}
    return variant == published and all(
        getattr(chosen, name) == value for name, value in points.items()
    )


def _variant(system: System) -> dict[str, Any]:
    """Return the system's options that make it another row, where set off their defaults."""
    chosen = system.resolved()
    plain = type(chosen)()
    return {
        name: getattr(chosen, name)
        for name in system.options
        if name in _VARIANTS and getattr(chosen, name) != getattr(plain, name)
    }


def _plain(text: str) -> str:
    return "".join(sign for sign in text.lower() if sign.isalnum())


_COSTS = {"api_calls": "#API"}


def published_table(experiment: Experiment) -> Table | None:
    """Return the published results next to ours, with all that differs."""
    rows = []
    for column in experiment.columns.values():
        found: dict[tuple[str, ...], list[PublishedResult]] = {}
        for one in published_for(experiment.settings, column.system):
            if _ours(column, one.metric) is not None:
                key = (one.paper, one.table, one.row, one.model, one.corpus)
                found.setdefault(key, []).append(one)
        rows += [_published_row(column, listed, experiment) for listed in found.values()]
    if not rows:
        return None
    head = ["method", "ours", "printed", "source", "differs in"]
    remarks = [
        "Percent, but for #API: calls of the large model a question. The last column names all that "
        "differs; values under other settings are not comparable."
    ]
    return Table("Beside the papers", head, rows, remarks)


def _published_row(
    column: Column, listed: Sequence[PublishedResult], experiment: Experiment
) -> list[str]:
    """Return one row of a paper's table next to ours, all its metrics in one cell."""
    first = listed[0]
    ours = [values for one in listed if (values := _ours(column, one.metric)) is not None]
    differing = differences(first, experiment.settings, column.system, len(ours[0].values))
    names = [_label(experiment, one.metric) for one in listed]
    scales = [1 if one.metric in column.costs else 100 for one in listed]
    return [
        column.label,
        _cells(names, [one.mean * scale for one, scale in zip(ours, scales, strict=True)]),
        _cells(names, [one.value for one in listed]),
        f"{first.paper}, table {first.table}: {first.row}{first.model and f', {first.model}'}",
        "; ".join(differing),
    ]


def _ours(column: Column, metric: str) -> Values | None:
    return column.scores.get(metric) or column.costs.get(metric)


def _label(experiment: Experiment, metric: str) -> str:
    return _COSTS.get(metric) or experiment.metric(metric).label


def _cells(names: Sequence[str], values: Sequence[float]) -> str:
    return " · ".join(f"{name} {value:.1f}" for name, value in zip(names, values, strict=True))
