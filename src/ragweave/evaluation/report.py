"""Reports of a run: its records become one table, which `layout.py` shows.

The table has a row for each system, a column for each metric, and what an answer cost. Systems are compared on the
questions that both have answered; the p-values are corrected for the number of pairs (Holm).
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias, get_args

from ragweave.errors import UsageError
from ragweave.evaluation.folder import Record, read_results, read_settings, shards
from ragweave.evaluation.metrics import MAIN, METRICS, Metric
from ragweave.evaluation.reproduce import Paper, Scores
from ragweave.evaluation.statistics import Comparison, Interval, bootstrap, compare, holm
from ragweave.evaluation.why import LOST, Stage
from ragweave.roles import ROLES, player_of
from ragweave.tools.prices import Price

_SHOWN_ELSEWHERE = ("data", "names", "own_metrics")
"""Settings that a report shows in other places."""

Lost: TypeAlias = Mapping[str, Mapping[Stage, Sequence[Record]]]
"""The records of lost answers, by system and stage (`why.py`)."""


@dataclass(frozen=True)
class Line:
    """A system's row."""

    system: str
    scores: Mapping[str, Interval]
    answered: int = 0
    failed: int = 0
    calls: float = 0.0
    """Model calls per question."""
    tokens: float = 0.0
    """Tokens read and written per question."""
    seconds: float = 0.0
    """Seconds per question."""
    dollars: float | None = None
    """US dollars per question; None if unknown."""


@dataclass(frozen=True)
class Pair:
    """Two systems compared by the main metric; the difference is the second's score minus the first's."""

    first: str
    second: str
    comparison: Comparison


@dataclass
class Report:
    """The table of a run."""

    title: str
    main: str
    """The metric that systems are compared by."""
    metrics: list[Metric]
    """The main metric first."""
    lines: list[Line]
    pairs: list[Pair]
    paper: Paper = field(default_factory=Paper)
    notes: list[str] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)
    """The run's settings, as text."""
    lost: Lost = field(default_factory=dict)
    """Empty if it was not computed."""

    @property
    def metric(self) -> Metric:
        """The main metric."""
        return next((metric for metric in self.metrics if metric.name == self.main), Metric(self.main, self.main, ""))


def read_report(folders: Path | Sequence[Path], main: str = "") -> Report:
    """Read a run, or its shards, or several runs on the same data, as a report.

    Args:
        folders: The run's folder; with several runs, the run's name is put before each system's, or its path if two have
            the same name.
        main: The metric that systems are compared by; "": the first of `MAIN` that has scores, or `contains` if
            `extractive` answered.

    Raises:
        UsageError: There is no run, its shards began with different settings, or no such metric was computed.
    """
    listed = [folders] if isinstance(folders, Path) else list(dict.fromkeys(folders))
    are_named = len({folder.name for folder in listed}) == len(listed)
    names, records, notes = list[str](), list[Record](), list[str]()
    own, about, quotes = dict[str, Any](), dict[str, str](), False
    for folder in listed:
        settings, missing = _settings(folder)
        prefix = f"{folder.name if are_named else folder}: " if len(listed) > 1 else ""
        results = _results(folder, prefix, settings)
        records += results
        notes += missing
        planned = [prefix + name for name in settings.get("names") or settings.get("systems", ())]
        names += [*planned, *(record["system"] for record in results)]
        own |= settings.get("own_metrics", {})
        quotes |= bool(planned) and str(settings.get("models", {}).get("generator")).startswith("extractive")
        about |= {prefix + name: _shown(value) for name, value in settings.items() if name not in _SHOWN_ELSEWHERE}
    paper = Paper.read(listed[0]) if len(listed) == 1 else Paper()
    names = list(dict.fromkeys([*names, *paper.best, *paper.empty]))
    scores = _scores(records, names)
    paper.derive(scores)
    metrics = _metrics(scores, paper, own)
    main = _main(metrics, main, quotes=quotes)
    empty = [f"{name} was not run: {why}" for name, why in paper.empty.items()]
    lines = [_line(name, [record for record in records if record["system"] == name], scores[name]) for name in names]
    return Report(
        title=paper.title or _title(str(settings.get("data", listed[0].name))),
        main=main,
        metrics=sorted(metrics, key=lambda metric: metric.name != main),
        lines=lines,
        pairs=_pairs(names, scores, main),
        paper=paper,
        notes=[*notes, *_remarks(settings, lines, metrics, records), *paper.notes, *empty],
        about=about,
        lost=lost_of(records),
    )


def _results(folder: Path, prefix: str, settings: Mapping[str, Any]) -> list[Record]:
    """Return a run's records, with the prefix before each system, and each question's price."""
    prices = prices_of(settings.get("prices", {}), settings.get("models", {}))
    results = [
        {
            **record,
            "system": prefix + record["system"],
            "dollars": dollars_of(record.get("usage") or {}, prices),
            "trace": trace_of(folder, record),
        }
        for record in read_results(folder)
    ]
    if not results:
        raise UsageError(f"{folder}: holds no results")
    return results


def trace_of(folder: Path, record: Record) -> str:
    """Return the file of a record's trace; "" if there is none."""
    files = (shard / record["trace"] for shard in (shards(folder) if record.get("trace") else ()))
    return next((str(file) for file in files if file.exists()), "")


def lost_of(records: Iterable[Record]) -> dict[str, dict[Stage, list[Record]]]:
    """Return the records of lost answers by system and stage, the systems without any included."""
    lost: dict[str, dict[Stage, list[Record]]] = {}
    stages: tuple[Stage, ...] = get_args(Stage)
    for record in records:
        for stage in stages:
            if f"{LOST}{stage}" in record["scores"]:
                losses = lost.setdefault(record["system"], {}).setdefault(stage, [])
                losses += [record] * bool(record["scores"][f"{LOST}{stage}"])
    return lost


def _title(data: str) -> str:
    """Return the name of a data set and of its file, without the folders."""
    name, colon, path = data.partition(":")
    return f"{name}{colon}{Path(path).name}" if colon else Path(data).name


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_shown(item)}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _settings(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a run's settings, and a note if shards are missing."""
    begun = [shard for shard in shards(folder) if (shard / "run.json").exists()]
    *others, last = [read_settings(shard) for shard in begun or [folder]]
    for shard, settings in zip(begun, others, strict=False):
        if {**settings, "prices": None} != {**last, "prices": None}:
            raise UsageError(f"{shard}: its settings differ from those of {begun[-1].name}")
    count = int(begun[0].name.rpartition("-")[2]) if begun and begun[-1] != folder else 1
    return last, [f"Only {len(begun)} of {count} shards are here."] if len(begun) < count else []


def _scores(records: Iterable[Record], names: Sequence[str]) -> dict[str, Scores]:
    """Return scores by system, metric and question with its right answers."""
    scores: dict[str, Scores] = {name: {} for name in names}
    for record in records:
        for metric, score in record["scores"].items():
            scores[record["system"]].setdefault(metric, {})[_asked(record)] = score
    return scores


def _asked(record: Record) -> str:
    """Return what a record answers: its question and right answers, which may differ under one id from run to run."""
    return " ".join([record["id"], record["hashes"]["question"], record["hashes"]["golds"]])


def _metrics(scores: Mapping[str, Scores], paper: Paper, own: Mapping[str, Any]) -> list[Metric]:
    """Return the metrics that have scores, in the order of reports, the paper's columns first."""
    known = {metric.name: metric for metric in METRICS.ours()}
    known |= {name: Metric(name, **fields) for name, fields in own.items()}
    columns = paper.metrics(known)
    scored = {metric for row in scores.values() for metric in row if not metric.startswith(LOST)} - columns.keys()
    others = [*(name for name in known if name in scored), *sorted(scored - known.keys())]
    return [*columns.values(), *(known.get(name) or Metric(name, name, "") for name in others)]


def _main(metrics: Sequence[Metric], wanted: str, *, quotes: bool) -> str:
    """Return the main metric; if answers are quoted sentences, exact match says nothing."""
    names = [metric.name for metric in metrics]
    if wanted and wanted not in names:
        raise UsageError(f"no {wanted!r} score in this run; there are {', '.join(names)}")
    usual = (["contains"] if quotes else []) + list(MAIN.values())
    return wanted or next((name for name in usual if name in names), names[0] if names else "")


def _line(system: str, records: Sequence[Record], scores: Scores) -> Line:
    answered = [record for record in records if not record["error"]]
    used = [record for record in answered if record.get("usage")]
    priced = [record["dollars"] for record in used if record["dollars"] is not None]
    return Line(
        system=system,
        scores={metric: bootstrap(list(values.values())) for metric, values in scores.items() if values},
        answered=len(answered),
        failed=len(records) - len(answered),
        calls=_mean(record["usage"]["calls"] for record in used),
        tokens=_mean(record["usage"]["input_tokens"] + record["usage"]["output_tokens"] for record in used),
        seconds=_mean(record["seconds"] for record in answered),
        dollars=_mean(priced) if priced and len(priced) == len(used) else None,
    )


def prices_of(given: Mapping[str, Sequence[float]], models: Collection[str]) -> dict[str, Price]:
    """Return prices by role, a role without a model of its own at the price of the role whose model plays it."""
    players: dict[str, str] = {role.name: player_of(role.name, models) for role in ROLES.values()}
    played = {role: given[player] for role, player in players.items() if player in given}
    return {role: Price(*pair) for role, pair in {**given, **played}.items()}


def dollars_of(usage: Mapping[str, Any], prices: Mapping[str, Price]) -> float | None:
    """Return a question's price by the run's own prices, else by the models' list prices; None if unknown."""
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


def _pairs(names: Sequence[str], scores: Mapping[str, Scores], main: str) -> list[Pair]:
    pairs = []
    for first, second in combinations(names, 2):
        ours, theirs = scores[first].get(main, {}), scores[second].get(main, {})
        if shared := [question for question in ours if question in theirs]:
            comparison = compare([theirs[question] for question in shared], [ours[question] for question in shared])
            pairs.append(Pair(first, second, comparison))
    adjusted = holm([pair.comparison.p for pair in pairs])
    return [replace(pair, comparison=replace(pair.comparison, p=p)) for pair, p in zip(pairs, adjusted, strict=True)]


def _remarks(
    settings: Mapping[str, Any], lines: Sequence[Line], metrics: Sequence[Metric], records: Iterable[Record]
) -> Iterable[str]:
    scored = {metric.name for metric in metrics}
    for name in settings.get("metrics", ()):
        if name not in scored:
            yield f"No question has a {name} score: the metric does not apply, or no verdict could be read."
    if failed := sum(line.failed for line in lines):
        errors: list[str] = [record["error"]["text"] for record in records if record["error"]]
        yield f"{failed} failed: {max(set(errors), key=errors.count)}; the same command tries them again."
    variants = Counter(name for name, _ in {(record["id"], _asked(record)) for record in records})
    if differing := sum(count > 1 for count in variants.values()):
        yield f"{differing} questions, or their right answers, differ between the systems: these are not compared."
    unread = Counter(
        record["system"]
        for record in records
        for note in record.get("notes", ())
        if note["event"] == "reply_unreadable"
    )
    if unread:
        counts = ", ".join(f"{name} {count}" for name, count in unread.items())
        yield f"Replies that could not be read, so that the method took its fallback: {counts}."
