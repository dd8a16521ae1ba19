"""Reports of a run: its records become one table, which `layout.py` shows.

The table has a row for each system, a column for each metric, and what an answer cost. Differences are taken over the
questions that both systems have answered; their p-values allow for the number of pairs (Holm).

A column of a paper's table may be derived from scores, one value per question:

    output_precision/positive   the questions whose passages are positive: they hold an answer, or are gold
    gain(em)/negative           the difference to the table's first row, on the others
    answer_share>0.5            whether it is above a value
    gain(rouge_l)>0             whether it is above the first row

Sources: FILCO (Wang et al. 2023), table 2 and figure 6; SlimPLM (Tan et al. 2024), figures 2 and 3.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from ragweave.errors import UsageError
from ragweave.evaluation.folder import Record, read_results, read_settings, shards
from ragweave.evaluation.metrics import MAIN, METRICS, Metric
from ragweave.evaluation.statistics import Comparison, Interval, bootstrap, compare, holm
from ragweave.tools.prices import Price

Values: TypeAlias = Mapping[str, float]
"""A value a question, by the question's id."""
Scores: TypeAlias = Mapping[str, Values]
"""Values by metric."""

_COLUMN = re.compile(r"(?:(gain)\()?([\w@]+)\)?(?:>([\d.]+))?(?:/(positive|negative))?")
_ELSEWHERE = ("data", "names", "own_metrics")
"""Settings that a report shows in other places."""


@dataclass(frozen=True)
class Line:
    """A system's row."""

    system: str
    scores: Mapping[str, Interval]
    answered: int = 0
    failed: int = 0
    calls: float = 0.0
    """Model calls a question."""
    tokens: float = 0.0
    """Tokens read and written a question."""
    seconds: float = 0.0
    """Seconds a question."""
    dollars: float | None = None
    """US dollars a question; None: not known."""


@dataclass(frozen=True)
class Pair:
    """Two systems, compared by the main metric; the difference is the second's less the first's."""

    first: str
    second: str
    found: Comparison


@dataclass(frozen=True)
class Paper:
    """What a paper prints, beside which a run's scores are shown (`paper.json`)."""

    title: str = ""
    values: Sequence[tuple[str, str, float]] = ()
    """System, column and value, in percent but for calls and tokens."""
    columns: Sequence[str] = ()
    notes: Sequence[str] = ()
    best: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Rows that are the best of other rows, question by question."""
    empty: Mapping[str, str] = field(default_factory=dict)
    """Why a row was not run, by system."""
    positive: str = ""
    """The metric that tells positive passages."""

    def printed(self, system: str, column: str) -> float | None:
        """Return a printed value; None if there is none."""
        return next((value for name, one, value in self.values if (name, one) == (system, column)), None)

    def write(self, folder: Path) -> None:
        """Write it into a run's folder, for the run's report."""
        (folder / "paper.json").write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", "utf-8")


@dataclass
class Report:
    """The table of a run."""

    title: str
    main: str
    """The metric that systems are compared by."""
    metrics: list[Metric]
    """The main one first."""
    lines: list[Line]
    pairs: list[Pair]
    paper: Paper = field(default_factory=Paper)
    notes: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    """The run's settings, as text."""

    @property
    def metric(self) -> Metric:
        """The main metric."""
        return next((one for one in self.metrics if one.name == self.main), Metric(self.main, self.main, ""))


def read_report(folders: Path | Sequence[Path], main: str = "") -> Report:
    """Read a run, or its shards, or several runs on the same data, as a report.

    Args:
        folders: The run's folder; of several runs, each system is called by its run too.
        main: The metric that systems are compared by; "": the first of `MAIN` that there is, or `contains` if
            `extractive` answered.

    Raises:
        UsageError: There is no run, its shards began with different settings, or no such metric was computed.
    """
    listed = [folders] if isinstance(folders, Path) else list(folders)
    names, records, notes = list[str](), list[Record](), list[str]()
    own, about, paper, quotes = dict[str, Any](), dict[str, str](), Paper(), False
    for folder in listed:
        settings, more = _settings(folder)
        lead = f"{folder.name}: " if len(listed) > 1 else ""
        prices = {role: Price(*pair) for role, pair in settings.get("prices", {}).items()}
        found = [
            {**one, "system": lead + one["system"], "dollars": _dollars(one.get("usage") or {}, prices)}
            for one in read_results(folder)
        ]
        if not found:
            raise UsageError(f"{folder}: holds no results")
        records += found
        notes += more
        planned = [lead + one for one in settings.get("names") or settings.get("systems", ())]
        if len(listed) == 1 and (folder / "paper.json").exists():
            paper = Paper(**json.loads((folder / "paper.json").read_text("utf-8")))
        names += dict.fromkeys([*planned, *(one["system"] for one in found), *paper.best, *paper.empty])
        own |= settings.get("own_metrics", {})
        quotes |= bool(planned) and str(settings.get("models", {}).get("answer")).startswith("extractive")
        about |= {lead + name: _shown(one) for name, one in settings.items() if name not in _ELSEWHERE}
    values = _values(records, names, paper)
    metrics = _metrics(values, paper, own)
    chosen = _main(metrics, main, quotes=quotes)
    empty = [f"{name} was not run: {why}" for name, why in paper.empty.items()]
    lines = [_line(name, [one for one in records if one["system"] == name], values[name]) for name in names]
    return Report(
        title=paper.title or _title(str(settings.get("data", listed[0].name))),
        main=chosen,
        metrics=sorted(metrics, key=lambda one: one.name != chosen),
        lines=lines,
        pairs=_pairs(names, values, chosen),
        paper=paper,
        notes=[*notes, *_remarks(settings, lines, metrics, records), *paper.notes, *empty],
        about=about,
    )


def _title(data: str) -> str:
    """Return a data set's name and its file's, without the folders."""
    name, colon, place = data.partition(":")
    return f"{name}{colon}{Path(place).name}" if colon else Path(data).name


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={_shown(one)}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _settings(folder: Path) -> tuple[dict[str, Any], list[str]]:
    parts = [one for one in shards(folder) if (one / "run.json").exists()]
    read = [read_settings(one) for one in parts or [folder]]
    for part, one in zip(parts, read, strict=False):
        if one != read[0]:
            raise UsageError(f"{part}: has other settings than {parts[0].name}")
    of = int(parts[0].name.rpartition("-")[2]) if parts and parts[0] != folder else 1
    return read[0], [f"Only {len(parts)} of {of} shards are here."] if len(parts) < of else []


def _values(records: Iterable[Record], names: Sequence[str], paper: Paper) -> dict[str, dict[str, dict[str, float]]]:
    """Return scores by system, metric and question, derived columns among them."""
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in names}
    for one in records:
        for metric, value in one["scores"].items():
            found[one["system"]].setdefault(metric, {})[one["id"]] = value
    for name, rows in paper.best.items():
        found[name] = best_of(found[row] for row in rows if row in found)
    for column in (one for one in paper.columns if one != base_of(one)):
        derived = [measured(column, found[name], found[names[0]], paper.positive) for name in names]
        for name, values in zip(names, derived, strict=True):
            found[name] |= {column: values} if values else {}
    return found


def _metrics(values: Mapping[str, Scores], paper: Paper, own: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics that there are scores of, in the order of reports, the paper's columns first."""
    known = {one.name: one for one in METRICS.ours()} | {name: Metric(name, **more) for name, more in own.items()}
    there = {metric for scores in values.values() for metric in scores}
    order = [*paper.columns, *(name for name in known if name in there), *sorted(there - known.keys())]
    found = []
    for name in dict.fromkeys(order):
        base = known.get(base_of(name)) or Metric(name, name, "")
        label = column_label(name, lambda one: known[one].label if one in known else one)
        if name in there or name in paper.columns:
            found.append(replace(base, name=name, label=label))
    return found


def _main(metrics: Sequence[Metric], wanted: str, *, quotes: bool) -> str:
    """Return the main metric; of answers that are whole quoted sentences, exact match says nothing."""
    names = [one.name for one in metrics]
    if wanted and wanted not in names:
        raise UsageError(f"no {wanted!r} score in this run; there are {', '.join(names)}")
    usual = (["contains"] if quotes else []) + list(MAIN.values())
    return wanted or next((one for one in usual if one in names), names[0] if names else "")


def _line(name: str, mine: Sequence[Record], values: Scores) -> Line:
    good = [one for one in mine if not one["error"]]
    usage = [one["usage"] for one in good if one.get("usage")]
    costs = [one["dollars"] for one in good if one.get("usage")]
    priced = [one for one in costs if one is not None]
    return Line(
        system=name,
        scores={metric: bootstrap(list(found.values())) for metric, found in values.items() if found},
        answered=len(good),
        failed=len(mine) - len(good),
        calls=_mean(one["calls"] for one in usage),
        tokens=_mean(one["input_tokens"] + one["output_tokens"] for one in usage),
        seconds=_mean(one["seconds"] for one in good),
        dollars=_mean(priced) if priced and len(priced) == len(costs) else None,
    )


def _dollars(usage: Mapping[str, Any], prices: Mapping[str, Price]) -> float | None:
    """Return a question's price by the run's own prices, else by the models' list prices."""
    if not prices:
        return usage.get("usd") if usage.get("priced_calls") == usage.get("calls") else None
    total = 0.0
    for role, tokens in usage.get("by_role", {}).items():
        price = prices.get(role, prices.get("*"))
        if price is None:
            return None
        total += price.of(tokens["input_tokens"], tokens["output_tokens"])
    return total


def _mean(values: Iterable[float]) -> float:
    return fmean([*values] or [0.0])


def _pairs(names: Sequence[str], values: Mapping[str, Scores], main: str) -> list[Pair]:
    found = []
    for first, second in combinations(names, 2):
        one, other = values[first].get(main, {}), values[second].get(main, {})
        if both := [at for at in one if at in other]:
            found.append(Pair(first, second, compare([other[at] for at in both], [one[at] for at in both])))
    adjusted = holm([one.found.p for one in found])
    return [replace(one, found=replace(one.found, p=p)) for one, p in zip(found, adjusted, strict=True)]


def _remarks(
    settings: Mapping[str, Any], lines: Sequence[Line], metrics: Sequence[Metric], records: Iterable[Record]
) -> Iterable[str]:
    there = {one.name for one in metrics}
    for name in settings.get("metrics", ()):
        if name not in there:
            yield f"No question has a {name} score: the metric does not apply, or no verdict could be read."
    if failed := sum(line.failed for line in lines):
        said: list[str] = [one["error"]["text"] for one in records if one["error"]]
        yield f"{failed} failed: {max(set(said), key=said.count)}; the same command tries them again."


# ---- derived columns


def base_of(column: str) -> str:
    """Return the metric that a column is derived from, which may be the column itself."""
    return _parts(column)[1]


def measured(column: str, mine: Scores, first: Scores, positive: str = "") -> dict[str, float]:
    """Return a row's values in a column, given those of the table's first row; empty if the metric was not computed.

    The metric `positive` is above 0 for questions whose passages are positive.
    """
    gain, name, above, where = _parts(column)
    found = dict(mine.get(name, {}))
    if where:
        passages = (first if gain else mine).get(positive, {})
        found = {
            at: found[at] for at, value in passages.items() if at in found and (value > 0) == (where == "positive")
        }
    if gain:
        base = first.get(name, {})
        found = {at: value - base[at] for at, value in found.items() if at in base}
    return {at: float(value > float(above)) for at, value in found.items()} if above else found


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
    gain, name, above, where = _parts(column)
    text = f"gain in {label(name)}" if gain else label(name)
    text = f"{text} > {above}" if above else text
    return f"{text}, {where}" if where else text


def _parts(column: str) -> tuple[str, str, str, str]:
    found = _COLUMN.fullmatch(column)
    gain, name, above, where = found.groups("") if found else ("", column, "", "")
    return gain, name, above, where
