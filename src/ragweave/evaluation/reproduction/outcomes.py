"""What a finished run measured, a value a question, for the columns of the papers' tables.

Beside a run's scores these are tokens by component (SlimPLM, table 4), shares of questions above a
score (SlimPLM, figure 3) or above another row (figure 2), and scores where retrieval succeeded or
not (FILCO, table 2 and figure 6).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ragweave.evaluation.metrics import metric_info
from ragweave.evaluation.runs import RunDirectory, records_of
from ragweave.evaluation.runs.outcome import Record

Points = Mapping[int, float]
"""A value a question, by the question's index in the data set."""

_SMALL = ("proxy", "rewrite", "judge")
"""Roles of SlimPLM's small models."""

_TENTH = 0.1
"""What a token of a 7B model counts beside one of a 70B model (SlimPLM, section 4.6); one of the
answering model, where it stands in for a small one, counts whole."""

_COSTS = {
    "api_calls": "#API",
    "tokens": "Tokens",
    "input_tokens": "Tokens in",
    "output_tokens": "Tokens out",
    "tokens_answer": "Large model",
    "tokens_proxy": "Proxy",
    "tokens_rewrite": "Rewriter",
    "tokens_judge": "Judge",
    "tokens_small": "Small models",
}


@dataclass(frozen=True)
class Outcomes:
    """What the systems of a run came to, by label."""

    points: dict[str, dict[str, dict[int, float]]] = field(default_factory=dict)
    """Values by metric; failed questions are out."""
    done: Counter[str] = field(default_factory=Counter)
    """Questions that were tried."""
    failed: Counter[str] = field(default_factory=Counter)
    """How many of them failed."""


def outcomes_of(directory: RunDirectory) -> Outcomes:
    """Return what each system of a run came to."""
    found, large = Outcomes(), large_roles(directory.settings.models)
    for record in records_of([directory.results]):
        label = record["system"]
        found.done[label] += 1
        if record["error"]:
            found.failed[label] += 1
            continue
        mine = found.points.setdefault(label, {})
        for name, value in {**record["scores"], **_costs(record, large)}.items():
            mine.setdefault(name, {})[record["at"]] = value
    return found


def large_roles(models: Mapping[str, str]) -> frozenset[str]:
    """Return the roles of calls, `answer` and others, that the answering model plays.

    Args:
        models: Specs by role, as settings of a run name them.
    """
    large = models["answer"]
    proxy = models.get("proxy", large)
    players = {
        "answer": large,
        "proxy": proxy,
        "judge": models.get("judge", proxy),
        "rewrite": models.get("rewriter", proxy),
        "filter": models.get("filter_model", large),
    }
    return frozenset(role for role, spec in players.items() if spec == large)


def _costs(record: Record, large: frozenset[str]) -> dict[str, float]:
    by_role = record["usage"]["by_role"]

    def written(role: str) -> int:
        return int(by_role.get(role, {}).get("output_tokens", 0))

    given = sum(one["input_tokens"] for one in by_role.values())
    made = sum(one["output_tokens"] for one in by_role.values())
    parts = {f"tokens_{role}": written(role) * (1 if role in large else _TENTH) for role in _SMALL}
    return {
        "api_calls": sum(one["calls"] for role, one in by_role.items() if role in large),
        "tokens": given + made,
        "input_tokens": given,
        "output_tokens": made,
        "tokens_answer": written("answer"),
        **parts,
        "tokens_small": sum(parts.values()),
    }


_METRIC = re.compile(
    r"(?:(?P<how>gain|better)\()?(?P<name>[\w@]+)\)?(?:>(?P<above>[\d.]+))?(?:/(?P<where>\w+))?"
)


def measured(
    metric: str, mine: Mapping[str, Points], first: Mapping[str, Points], positive: str = ""
) -> Points | None:
    """Return a column's values; None where the run has none.

    Args:
        metric: The column's metric, as the papers' tables declare it.
        mine: The row's values by metric.
        first: Those of the first row of the table.
        positive: The metric that is above 0 where a question's passages are positive.
    """
    how, name, above, where = _parts(metric)
    if name not in mine:
        return None
    found = dict(mine[name])
    if where:
        passages = (first if how else mine).get(positive, {})
        wanted = {at for at, value in passages.items() if (value > 0) == (where == "positive")}
        found = {index: value for index, value in found.items() if index in wanted}
    if above:
        return {index: float(value > float(above)) for index, value in found.items()}
    if not how:
        return found
    base = first.get(name, {})
    both = {index: value - base[index] for index, value in found.items() if index in base}
    return both if how == "gain" else {index: float(value > 0) for index, value in both.items()}


def best_of(rows: Iterable[Mapping[str, Points]]) -> dict[str, Points]:
    """Return the highest value of each question among rows that all answered it, by metric."""
    listed = list(rows)
    shared = set.intersection(*(set(one) for one in listed)) if listed else set()
    found: dict[str, Points] = {}
    for name in shared:
        asked = set.intersection(*(set(one[name]) for one in listed))
        found[name] = {index: max(one[name][index] for one in listed) for index in sorted(asked)}
    return found


def is_share(metric: str) -> bool:
    """Say whether a column is shown in percent; costs are shown as they are."""
    return _parts(metric)[1] not in _COSTS


def column_label(metric: str) -> str:
    """Return what a column is called."""
    how, name, above, where = _parts(metric)
    label = _COSTS.get(name) or metric_info(name).label
    label = f"{label} > {above}" if above else label
    label = {"gain": f"gain in {label}", "better": f"{label} better"}.get(how, label)
    return f"{label}, {where}" if where else label


def _parts(metric: str) -> tuple[str, str, str, str]:
    found = _METRIC.fullmatch(metric)
    if found is None:
        raise ValueError(f"no metric of a table: {metric!r}")
    how, name, above, where = found.group("how", "name", "above", "where")
    return how or "", name, above or "", where or ""
