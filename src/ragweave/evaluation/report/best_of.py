"""Several answers of one method under several nuclei: right where any of them is.

Source: BlendFilter (Wang et al. 2024), figure 4: of three answers, EM is 1 where one is right, and
F1 is the highest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ragweave.evaluation.metrics import Interval, bootstrap
from ragweave.evaluation.report.summary import Column, Experiment
from ragweave.evaluation.report.table import Table

_SCORES = ("em", "f1", "accuracy")


def best_of_table(experiment: Experiment) -> Table | None:
    """Return the best of each method's answers under different `top_p`; None where none has two."""
    groups: dict[str, list[Column]] = {}
    for column in experiment.columns.values():
        if "top_p" in column.system.options:
            groups.setdefault(_but_top_p(column), []).append(column)
    several = {key: listed for key, listed in groups.items() if len(listed) > 1}
    names = [
        name
        for name in _SCORES
        if any(name in column.scores for listed in several.values() for column in listed)
    ]
    rows = [
        [key, str(len(listed)), *(_cell(best_of(listed, name)) for name in names)]
        for key, listed in several.items()
    ]
    if not rows or not names:
        return None
    remarks = ["Over questions that were answered each time; in brackets the 95% interval."]
    head = ["method", "answers", *(experiment.metric(name).label for name in names)]
    return Table("Best of several answers", head, rows, remarks)


def best_of(columns: Sequence[Column], score: str) -> Interval | None:
    """Return the mean of each question's best score; None where no question has all."""
    tables: list[Mapping[int, float]] = [
        dict(zip(values.at, values.values, strict=True))
        for column in columns
        if (values := column.scores.get(score)) is not None
    ]
    if not tables:
        return None
    shared = set.intersection(*map(set, tables))
    best = [max(table[at] for table in tables) for at in sorted(shared)]
    return bootstrap(best) if best else None


def _but_top_p(column: Column) -> str:
    rest = {name: value for name, value in column.system.options.items() if name != "top_p"}
    shown = ",".join(f"{name}={value}" for name, value in rest.items())
    return f"{column.system.method}[{shown}]" if shown else column.system.method


def _cell(found: Interval | None) -> str:
    if found is None:
        return "–"
    return f"{found.mean * 100:.1f} [{found.low * 100:.1f}, {found.high * 100:.1f}]"
