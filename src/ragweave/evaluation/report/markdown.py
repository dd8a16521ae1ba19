"""`report.md` and `results.csv`."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from ragweave.evaluation.report.differences import between_table
from ragweave.evaluation.report.summary import Experiment
from ragweave.evaluation.report.table import Table
from ragweave.evaluation.report.tables import tables_of
from ragweave.tools.files import replacing, write_atomic


def write_markdown(path: Path, experiments: Sequence[Experiment], plots: Sequence[Path]) -> None:
    """Write the report as Markdown, with the plots beside it."""
    parts = ["# Evaluation report", ""]
    for experiment in experiments:
        for level, table in enumerate(tables_of(experiment)):
            parts += [*_table(table, "##" if level == 0 else "###"), ""]
        parts += [*settings_lines(experiment), ""]
    between = between_table(experiments)
    if between is not None:
        parts += [*_table(between, "##"), ""]
    for plot in plots:
        if plot.suffix == ".png":
            parts += [f"![{plot.stem}]({plot.relative_to(path.parent).as_posix()})", ""]
    write_atomic(path, "\n".join(parts))


def settings_lines(experiment: Experiment) -> list[str]:
    """Return what the run was made with, a line each."""
    settings = experiment.settings
    roles = ", ".join(f"{role} {spec}" for role, spec in settings.models.items())
    versions = ", ".join(f"{name} {version}" for name, version in settings.versions.items())
    return [
        f"- data: {settings.dataset} ({settings.questions} questions, SHA-256 "
        f"{settings.dataset_hash[:16]}…)",
        f"- models: {roles}" + (f"; scorer {settings.scorer}" if settings.scorer else ""),
        f"- passages: {settings.corpus} {settings.kb} retriever {settings.retriever}, "
        f"gold {settings.gold}",
        f"- seed {settings.seed}, limit {settings.limit}, sample {settings.sample}",
        f"- versions: {versions}",
    ]


def write_csv(path: Path, experiments: Sequence[Experiment]) -> None:
    """Write every mean with its interval, a row each, in the metrics' own units."""
    with replacing(path) as draft, draft.open("w", encoding="utf-8", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(
            ["run", "dataset", "model", "system", "method", "metric", "mean", "low", "high", "n"]
        )
        for experiment in experiments:
            settings = experiment.settings
            head = [experiment.name, settings.dataset_name, settings.models["answer"]]
            for column in experiment.columns.values():
                nodes = {
                    f"node_{kind}[{node}]": values
                    for node, taken in column.nodes.items()
                    for kind, values in taken.items()
                }
                for name, values in {**column.scores, **column.costs, **nodes}.items():
                    found = values.interval()
                    numbers = [f"{one:.6g}" for one in (found.mean, found.low, found.high)]
                    out.writerow(
                        [*head, column.label, column.system.method, name, *numbers, found.n]
                    )


def _table(table: Table, mark: str) -> list[str]:
    return [
        f"{mark} {table.title}",
        "",
        _line(table.head),
        _line(["---"] * len(table.head)),
        *(_line(row) for row in table.rows),
        "",
        *(f"{remark}  " for remark in table.remarks),
    ]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
