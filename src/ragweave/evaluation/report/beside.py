"""The table of the papers' printed values beside ours."""

from __future__ import annotations

from collections.abc import Sequence

from ragweave.evaluation.report.printed import Printed, differences, printed_for
from ragweave.evaluation.report.summary import Column, Experiment, Values
from ragweave.evaluation.report.table import Table

_COSTS = {"api_calls": "#API"}


def printed_table(experiment: Experiment) -> Table | None:
    """Return the papers' printed values beside ours, with all that differs."""
    rows = []
    for column in experiment.columns.values():
        found: dict[tuple[str, ...], list[Printed]] = {}
        for one in printed_for(experiment.settings, column.system):
            if _ours(column, one.metric) is not None:
                key = (one.paper, one.table, one.row, one.model, one.corpus)
                found.setdefault(key, []).append(one)
        rows += [_printed_row(column, listed, experiment) for listed in found.values()]
    if not rows:
        return None
    head = ["method", "ours", "printed", "source", "differs in"]
    remarks = [
        "Percent, but for #API: calls of the large model a question. The last column names all that "
        "differs; values under other settings are not comparable."
    ]
    return Table("Beside the papers", head, rows, remarks)


def _printed_row(column: Column, listed: Sequence[Printed], experiment: Experiment) -> list[str]:
    """Return one row of a paper's table beside ours, all its metrics in one cell."""
    first = listed[0]
    ours = [values for one in listed if (values := _ours(column, one.metric)) is not None]
    told = differences(first, experiment.settings, column.system, len(ours[0].values))
    names = [_label(experiment, one.metric) for one in listed]
    scales = [1 if one.metric in column.costs else 100 for one in listed]
    return [
        column.label,
        _cells(names, [one.mean * scale for one, scale in zip(ours, scales, strict=True)]),
        _cells(names, [one.value for one in listed]),
        f"{first.paper}, table {first.table}: {first.row}, {first.model}",
        "; ".join(told),
    ]


def _ours(column: Column, metric: str) -> Values | None:
    return column.scores.get(metric) or column.costs.get(metric)


def _label(experiment: Experiment, metric: str) -> str:
    return _COSTS.get(metric) or experiment.metric(metric).label


def _cells(names: Sequence[str], values: Sequence[float]) -> str:
    return " · ".join(f"{name} {value:.1f}" for name, value in zip(names, values, strict=True))
