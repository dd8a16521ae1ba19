"""Our values beside the paper's, row by row, with all that differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ragweave.evaluation.metrics import Interval, bootstrap
from ragweave.evaluation.published.tables import PaperTable, TableRow, published_result
from ragweave.evaluation.report.published import differences
from ragweave.evaluation.reproduction.outcomes import (
    Outcomes,
    Points,
    best_of,
    measured,
    outcomes_of,
)
from ragweave.evaluation.reproduction.runs import PlannedRun
from ragweave.evaluation.runs import RunDirectory, RunSettings


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A value of ours, and what the paper prints in its place."""

    metric: str
    ours: Interval | None
    """None: not run, or the metric does not apply."""
    printed: Mapping[str, float] = field(default_factory=dict)
    """By the paper's model ("": a system with a model of its own, or none is named); empty: drawn,
    not printed."""


@dataclass(frozen=True, kw_only=True)
class ComparedRow:
    """A row of the paper's table on one data set."""

    dataset: str
    corpus: str
    """What the paper searched."""
    row: TableRow
    cells: tuple[Cell, ...]
    differs: tuple[str, ...] = ()
    why_not: str = ""
    """Why it was not run; "": it was."""


def compare_table(
    table: PaperTable, runs: Sequence[PlannedRun], out: Path | None
) -> list[ComparedRow]:
    """Return a table's rows, ours beside the paper's.

    Args:
        table: The table.
        runs: Its runs.
        out: The reproduction's directory; None: nothing was run yet, so that only differences and
            printed values are known.
    """
    return [row for dataset in table.datasets for row in _dataset(table, dataset, runs, out)]


def _dataset(
    table: PaperTable, dataset: str, runs: Sequence[PlannedRun], out: Path | None
) -> Iterator[ComparedRow]:
    mine = [run for run in runs if run.data.dataset == dataset and run.rows]
    outcomes = {run.folder: _outcomes(run, out) for run in mine}
    rows: dict[tuple[str, str], list[TableRow]] = {}
    for row in table.rows:
        if row.measured_on(dataset):
            rows.setdefault((row.corpus, row.row), []).append(row)
    values: dict[tuple[str, str], Mapping[str, Points]] = {}
    for (corpus, label), listed in rows.items():
        if (run := _run_of(listed[0], mine)) is not None:
            values[corpus, label] = outcomes[run.folder].points.get(label, {})
    for (corpus, _), listed in rows.items():
        first = next((found for (where, _), found in values.items() if where == corpus), {})
        found = _row(table, dataset, listed, mine, values, first)
        run = _run_of(listed[0], mine)
        failed = _failed(outcomes[run.folder], listed[0].row) if run else ()
        yield replace(found, differs=(*found.differs, *failed))


def _run_of(row: TableRow, runs: Sequence[PlannedRun]) -> PlannedRun | None:
    return next((one for one in runs if row in one.rows.get(row.row, ())), None)


def _outcomes(run: PlannedRun, out: Path | None) -> Outcomes:
    if out is None or run.made is None or not (out / run.folder / "results.jsonl").exists():
        return Outcomes()
    return outcomes_of(RunDirectory(out / run.folder))


def _failed(found: Outcomes, label: str) -> tuple[str, ...]:
    """Return how many questions a row has no score for, where any failed."""
    if not found.failed[label]:
        return ()
    many = f"{found.failed[label]} of {found.done[label]} questions failed"
    return (f"{many} and count in no score: --retry-failed asks them again",)


def _row(
    table: PaperTable,
    dataset: str,
    listed: Sequence[TableRow],
    runs: Sequence[PlannedRun],
    values: Mapping[tuple[str, str], Mapping[str, Points]],
    first: Mapping[str, Points],
) -> ComparedRow:
    row = listed[0]
    run = _run_of(row, runs)
    mine = values.get((row.corpus, row.row), {})
    if row.method.startswith("best:"):
        mine = best_of(_above(table, row, values))
    metrics = [metric for name, metric in row.cells if name == dataset]
    return ComparedRow(
        dataset=dataset,
        corpus=row.corpus,
        row=row,
        cells=tuple(_cell(dataset, metric, listed, mine, first) for metric in metrics),
        differs=tuple(_differs(table, row, dataset, run)) if run else (),
        why_not=_why_not(row, run),
    )


def _above(
    table: PaperTable, best: TableRow, values: Mapping[tuple[str, str], Mapping[str, Points]]
) -> Iterator[Mapping[str, Points]]:
    method = best.method.partition(":")[2]
    for row in table.rows:
        found = values.get((row.corpus, row.row))
        if row.method == method and row.corpus == best.corpus and found is not None:
            yield found


def _cell(
    dataset: str,
    metric: str,
    listed: Sequence[TableRow],
    mine: Mapping[str, Points],
    first: Mapping[str, Points],
) -> Cell:
    found = measured(metric, mine, first, listed[0].positive(dataset))
    printed = {row.model: row.cells.get((dataset, metric)) for row in listed}
    return Cell(
        metric=metric,
        ours=bootstrap([found[index] for index in sorted(found)]) if found else None,
        printed={model: value for model, value in printed.items() if value is not None},
    )


def _why_not(row: TableRow, run: PlannedRun | None) -> str:
    if row.method == "-":
        return "no method of this package: printed for comparison"
    if row.method.startswith("best:") or run is None:
        return ""
    return run.left_out.get(row.row) or run.problem


def _differs(table: PaperTable, row: TableRow, dataset: str, run: PlannedRun) -> Iterator[str]:
    """Yield how our row differs from the paper's; its model is told once for all rows."""
    made, one = run.made, run.systems.get(row.row)
    if made is None or one is None:
        return
    n = made.planned
    yield f"questions: {run.data.about}, here {_asked(run, made)}"
    metric = next(metric for name, metric in row.cells if name == dataset)
    paper = published_result(table, row, dataset, metric)
    paper = replace(paper, options=table.options_of(row, dataset))
    settled = replace(made, only=()) if run.base else made
    for text in differences(paper, settled, one, n):
        if not text.startswith(("model ", "sample ")):
            yield text
    if row.method == "slimplm" and (theirs := row.shared.get("proxy")):
        ours = made.models.get("proxy", "the answering model itself")
        yield f"proxy {theirs}, here {ours}"


def _asked(run: PlannedRun, made: RunSettings) -> str:
    file = run.path.name if run.path else ""
    how = f"first {made.limit} of " if made.limit else f"{made.sample} of " if made.sample else ""
    if made.limit and made.limit >= made.questions:
        how = ""
    return f"{how}{file} ({made.questions} questions)"


def plain(
    table: PaperTable, rows: Sequence[ComparedRow], models: Mapping[str, str]
) -> dict[str, Any]:
    """Return a comparison as JSON values; scores of ours in percent too."""
    from ragweave.evaluation.reproduction.outcomes import is_share

    def cell(one: Cell) -> dict[str, Any]:
        scale = 100 if is_share(one.metric) else 1
        ours = one.ours and {
            "mean": one.ours.mean * scale,
            "low": one.ours.low * scale,
            "high": one.ours.high * scale,
            "n": one.ours.n,
        }
        return {"metric": one.metric, "ours": ours, "printed": dict(one.printed)}

    return {
        "paper": table.source,
        "table": table.label,
        "title": table.title,
        "models": {"paper": list(table.models), "here": dict(models)},
        "notes": list(table.notes),
        "stated": list(table.stated),
        "rows": [
            {
                "dataset": one.dataset,
                "row": one.row.row,
                "method": one.row.method,
                "corpus": one.corpus,
                "cells": [cell(each) for each in one.cells],
                "differs": list(one.differs),
                "not_run": one.why_not,
            }
            for one in rows
        ],
    }
