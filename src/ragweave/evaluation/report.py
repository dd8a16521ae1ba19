"""Reports of a run: a table on screen, `report.md`, `report.csv`, and `report.html` (`page.py`).

A run's records become one table, which each of the four shows: a row for each system, a column for each metric,
and what an answer cost. Differences are taken over the questions that both systems have answered; their p-values
allow for the number of pairs (Holm).
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from ragweave.errors import UsageError
from ragweave.evaluation.derived import Scores, base_of, best_of, column_label, measured
from ragweave.evaluation.folder import Record, read_results, read_settings, shards
from ragweave.evaluation.metrics import MAIN, METRICS, Metric
from ragweave.tools.prices import Price
from ragweave.tools.statistics import Comparison, Interval, bootstrap, compare, holm

WIDTH = 100
"""Columns of a terminal that the table fits into."""
_SURE = 0.05
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
    """The metric that tells positive passages (`derived`)."""

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
        metrics=metrics,
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


# ---- texts


def verdict(report: Report) -> str:
    """Return in one sentence which system did best, by how much, and at what cost."""
    main, label = report.main, report.metric.label
    scored = [one for one in report.lines if main in one.scores]
    if not scored:
        return "No question has a score."
    ranked = sorted(scored, key=lambda one: one.scores[main].mean, reverse=report.metric.higher_is_better)
    best = ranked[0]
    score = _score(best.scores[main], report.metric, interval=True)
    if len(ranked) == 1:
        return f"{best.system} has {label} {score} (n = {best.scores[main].n})."
    other = ranked[1]
    second = _score(other.scores[main], report.metric)
    if best.scores[main].mean == other.scores[main].mean:
        return f"{best.system} and {other.system} are tied at {label} {score}."
    pair = next((one for one in report.pairs if {one.first, one.second} == {best.system, other.system}), None)
    times = f"at {best.tokens / other.tokens:.1f} times the tokens of" if best.tokens and other.tokens else "before"
    text = f"{best.system} leads with {label} {score}, {times} {other.system}, which has {second}"
    if pair is None:
        return f"{text}."
    sure = "significant" if pair.found.p < _SURE else "not significant"
    return f"{text}; the difference is {sure} (p {_p(pair.found.p, '= ')})."


def cells(
    report: Report, metrics: Sequence[Metric] | None = None, *, brief: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a report.

    Args:
        report: The report.
        metrics: The metrics that are shown; None: all.
        brief: Whether intervals are shown as half their width, such as 40.1 ±3.2.
    """
    shown = sorted(report.metrics, key=lambda one: one.name != report.main) if metrics is None else metrics
    printed = {column for _, column, _ in report.paper.values}
    priced = any(line.dollars is not None for line in report.lines)
    head = ["System"]
    for metric in shown:
        head += [metric.label] + ["paper"] * (metric.name in printed)
    head += ["calls", "tokens", *["$/1,000"] * priced, "s", "n"]
    compared = len(report.lines) > 1 and bool(report.pairs)
    head += [f"Δ {report.metric.label}", "p"] * compared
    first = report.lines[0].system
    against = {one.second: one.found for one in report.pairs if one.first == first}
    rows = []
    for line in report.lines:
        row = [line.system]
        for metric in shown:
            row.append(_score(line.scores.get(metric.name), metric, interval=metric.name == report.main, brief=brief))
            if metric.name in printed:
                value = report.paper.printed(line.system, metric.name)
                row.append("" if value is None else f"{value:.1f}")
        row += _costs(line, priced)
        if compared:
            row += _difference(against.get(line.system), report.metric, brief=brief)
        rows.append(row)
    return head, rows


def _costs(line: Line, priced: bool) -> list[str]:
    if not line.answered + line.failed:
        return [""] * (4 + priced)
    dollars = ["" if line.dollars is None else f"{line.dollars * 1000:.2f}"] * priced
    failed = f" ({line.failed} failed)" if line.failed else ""
    return [f"{line.calls:.1f}", f"{line.tokens:,.0f}", *dollars, f"{line.seconds:.1f}", f"{line.answered}{failed}"]


def _difference(found: Comparison | None, metric: Metric, *, brief: bool = False) -> list[str]:
    return (
        ["", ""] if found is None else [_score(found.difference, metric, "+", interval=True, brief=brief), _p(found.p)]
    )


def _score(
    found: Interval | None, metric: Metric, sign: str = "", *, interval: bool = False, brief: bool = False
) -> str:
    """Return a mean, with its interval if wanted; "" for none."""
    if found is None:
        return ""
    times = 100 if metric.percent else 1
    mean, low, high = (f"{one * times:{sign}.1f}" for one in (found.mean, found.low, found.high))
    if not interval:
        return mean
    return f"{mean} ±{(found.high - found.low) * times / 2:.1f}" if brief else f"{mean} [{low}, {high}]"


def _p(value: float, equals: str = "") -> str:
    return "< .001" if value < 0.001 else f"{equals}{value:.3f}"


def pair_cells(report: Report) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of the table of all pairs."""
    rows = [[one.second, one.first, *_difference(one.found, report.metric)] for one in report.pairs]
    return ["System", "against", f"Δ {report.metric.label}", "p (Holm)"], rows


def show(report: Report, console: Console | None = None) -> None:
    """Print a report: as many metrics as fit."""
    console = console or Console()
    width = min(console.width, WIDTH)
    shown = sorted(report.metrics, key=lambda one: one.name != report.main)
    head, rows = cells(report, shown, brief=True)
    while len(shown) > 1 and _width(head, rows) > width:
        shown.pop()
        head, rows = cells(report, shown, brief=True)
    table = RichTable(box=None, padding=(0, 2, 0, 0), title=Text(report.title, "dim"), title_justify="left")
    for at, name in enumerate(head):
        table.add_column(Text(name, "bold"), justify="right" if at else "left", overflow="fold", no_wrap=at > 0)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table, width=width)
    for text, style in [(verdict(report), "bold"), *((one, "yellow") for one in report.notes)]:
        console.print(text, style=style, markup=False, width=width)


def _width(head: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    first, *others = (max(map(len, one)) + 2 for one in zip(head, *rows, strict=True))
    return min(first, 24) + sum(others)  # a long name is folded


# ---- files


def write(report: Report, folder: Path) -> list[Path]:
    """Write `report.md`, `report.csv` and `report.html` into a folder, and return their paths."""
    from ragweave.evaluation.page import html

    folder.mkdir(parents=True, exist_ok=True)
    texts = {"md": markdown(report), "csv": comma_separated(report), "html": html(report)}
    for kind, text in texts.items():
        (folder / f"report.{kind}").write_text(text, "utf-8", "replace", "")
    return [folder / f"report.{kind}" for kind in texts]


def markdown(report: Report) -> str:
    """Return a report as Markdown."""
    lines = [f"# {report.title}", "", verdict(report), "", *_md(*cells(report)), ""]
    lines += [f"> {' '.join(one.split())}" for one in report.notes]
    if len(report.pairs) > 1:
        lines += ["", "## All pairs", "", *_md(*pair_cells(report))]
    lines += ["", "## Metrics", "", *legend(report), "", "## Settings", ""]
    lines += [f"- {name}: {value}" for name, value in report.about.items()]
    return "\n".join(lines) + "\n"


def _md(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table; cells hold neither HTML nor line ends."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    clean = ((" ".join(one.split()).replace("<", "&lt;").replace("|", r"\|") for one in row) for row in lines)
    return [f"| {' | '.join(row)} |" for row in clean]


def legend(report: Report) -> list[str]:
    """Return what each metric is, and over how many questions it is if not over all."""
    asked = max((line.answered for line in report.lines), default=0)
    found = []
    for one in report.metrics:
        most = max((line.scores[one.name].n for line in report.lines if one.name in line.scores), default=0)
        over = f" Over {most} of {asked} questions." if most < asked else ""
        source, lower = f" {one.source}." * bool(one.source), " Lower is better." * (not one.higher_is_better)
        found.append(f"- **{one.label}**: {one.summary}{source}{lower}{over}")
    return found


def comma_separated(report: Report) -> str:
    """Return a report as CSV, one row for each score."""
    text = io.StringIO()
    table = csv.writer(text)
    table.writerow(["system", "metric", "mean", "low", "high", "n", "paper"])
    for line in report.lines:
        for name, one in line.scores.items():
            printed = report.paper.printed(line.system, name)
            table.writerow([line.system, name, one.mean, one.low, one.high, one.n, printed])
        for name in ("calls", "tokens", "seconds", "dollars"):
            table.writerow([line.system, name, getattr(line, name), "", "", line.answered, ""])
    return text.getvalue()
