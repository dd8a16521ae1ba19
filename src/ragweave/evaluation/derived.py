"""Columns of the papers' tables that are derived from scores, one value per question.

    output_precision/positive   the questions whose passages are positive: they hold an answer, or are gold
    gain(em)/negative           the difference to the table's first row, on the others
    better(rouge_l)             whether it is above the first row
    answer_share>0.5            whether it is above a value

Sources: FILCO (Wang et al. 2023), table 2 and figure 6; SlimPLM (Tan et al. 2024), figures 2 and 3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

Values: TypeAlias = Mapping[str, float]
"""A value a question, by the question's id."""
Scores: TypeAlias = Mapping[str, Values]
"""Values by metric."""

_COLUMN = re.compile(r"(?:(gain|better)\()?([\w@]+)\)?(?:>([\d.]+))?(?:/(positive|negative))?")


def base_of(column: str) -> str:
    """Return the metric that a column is derived from, which may be the column itself."""
    return _parts(column)[1]


def measured(column: str, mine: Scores, first: Scores, positive: str = "") -> dict[str, float]:
    """Return a row's values in a column, given those of the table's first row; empty if the metric was not computed.

    The metric `positive` is above 0 for questions whose passages are positive.
    """
    how, name, above, where = _parts(column)
    found = dict(mine.get(name, {}))
    if where:
        passages = (first if how else mine).get(positive, {})
        found = {
            at: found[at] for at, value in passages.items() if at in found and (value > 0) == (where == "positive")
        }
    if above:
        return {at: float(value > float(above)) for at, value in found.items()}
    if not how:
        return found
    base = first.get(name, {})
    gains = {at: value - base[at] for at, value in found.items() if at in base}
    return gains if how == "gain" else {at: float(value > 0) for at, value in gains.items()}


def best_of(rows: Iterable[Scores]) -> dict[str, dict[str, float]]:
    """Return by metric the highest value of each question that all rows have answered (BlendFilter, section 4.7)."""
    listed = list(rows)
    metrics = set.intersection(*(set(one) for one in listed)) if listed else set()
    found = {}
    for name in sorted(metrics):
        asked = set.intersection(*(set(one[name]) for one in listed))
        found[name] = {at: max(one[name][at] for one in listed) for at in sorted(asked)}
    return found


def column_label(column: str, label: Callable[[str], str]) -> str:
    """Return what a column is called, given what its metric is called."""
    how, name, above, where = _parts(column)
    text = f"{label(name)} > {above}" if above else label(name)
    text = {"gain": f"gain in {text}", "better": f"{text} better"}.get(how, text)
    return f"{text}, {where}" if where else text


def _parts(column: str) -> tuple[str, str, str, str]:
    found = _COLUMN.fullmatch(column)
    how, name, above, where = found.groups("") if found else ("", column, "", "")
    return how, name, above, where
