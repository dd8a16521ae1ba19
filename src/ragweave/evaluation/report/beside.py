"""The table of the papers' printed values beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from ragweave.evaluation.report.printed import Printed, differences, printed_for
from ragweave.evaluation.report.summary import Column, Experiment
from ragweave.evaluation.report.table import Table


def printed_table(experiment: Experiment) -> Table | None:
    """Return the papers' printed values beside ours, with all that differs."""
    rows = []
    for column in experiment.columns.values():
        found: dict[tuple[str, ...], list[Printed]] = {}
        for one in printed_for(experiment.settings, column.system):
            if one.metric in column.scores:
                key = (one.paper, one.table, one.row, one.model, one.corpus)
                found.setdefault(key, []).append(one)
        rows += [_printed_row(column, listed, experiment) for listed in found.values()]
    if not rows:
        return None
    head = ["method", "ours", "printed", "source", "differs in"]
    remarks = ["Percent. Where the last column names a difference, the values are not comparable."]
    return Table("Beside the papers", head, rows, remarks)


def _printed_row(column: Column, listed: Sequence[Printed], experiment: Experiment) -> list[str]:
    """Return one row of a paper's table beside ours, all its metrics in one cell."""
    first = listed[0]
    counts = [len(column.scores[one.metric].values) for one in listed]
    told = differences(first, experiment.settings, column.system, counts[0])
    ours = [
        sum(column.scores[one.metric].values) / n for one, n in zip(listed, counts, strict=True)
    ]
    return [
        column.label,
        _cells(
            [experiment.metric(one.metric).label for one in listed], [value * 100 for value in ours]
        ),
        _cells(
            [experiment.metric(one.metric).label for one in listed], [one.value for one in listed]
        ),
        f"{first.paper}, table {first.table}: {first.row}, {first.model}",
        "; ".join(told) or "nothing named",
    ]


def _cells(names: Sequence[str], values: Sequence[float]) -> str:
    return " · ".join(f"{name} {value:.1f}" for name, value in zip(names, values, strict=True))
