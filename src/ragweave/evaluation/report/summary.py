"""Runs summarized for a report: scores by system, costs, errors; read back a line at a time."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import get_args

from ragweave.datasets import Scoring
from ragweave.errors import UsageError
from ragweave.evaluation.metrics import (
    METRICS,
    Interval,
    Metric,
    MetricInfo,
    Price,
    Prices,
    bootstrap,
    cost,
    infos_of,
    metric_info,
    primary_metric,
)
from ragweave.evaluation.metrics.cost import is_free
from ragweave.evaluation.report.merging import check_apart, key_of
from ragweave.evaluation.runs.calls import Ledger
from ragweave.evaluation.runs.directory import RunDirectory, records_of
from ragweave.evaluation.runs.outcome import Record
from ragweave.evaluation.runs.settings import RunSettings, System

Aggregate = Callable[[Sequence[float]], float]


@dataclass
class Values:
    """One value a question: the questions' indices in the data set, and the values."""

    index: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    aggregate: Aggregate | None = None
    """Makes one number of the values; None: their mean."""

    def add(self, index: int, value: float) -> None:
        """Take a question in."""
        self.index.append(index)
        self.values.append(value)

    @property
    def mean(self) -> float:
        """The mean; there is at least one value."""
        return sum(self.values) / len(self.values)

    def interval(self) -> Interval:
        """Return the mean (or the metric's own aggregate) with its 95% bootstrap interval.

        Questions end in any order; the samples are drawn from them in that of the data set, so that
        the same answers always have the same interval.
        """
        ordered = [value for _, value in sorted(zip(self.index, self.values, strict=True))]
        return bootstrap(ordered, aggregate=self.aggregate)


COSTS = ("calls", "api_calls", "retrievals", "input_tokens", "output_tokens", "seconds", "cost")
"""What each answered question cost the method, whoever answered (model or cache); `api_calls` are
those of the large model alone (SlimPLM, table 1: #API). The dollars are of all calls too: methods
share replies, and the one that asks first would pay for the others. Seconds are those of questions
that were answered in one go by models alone (`_is_timed`)."""


@dataclass
class Column:
    """One system of one experiment."""

    system: System
    aggregates: Mapping[str, Aggregate] = field(default_factory=dict)
    """How metrics are aggregated that have a way of their own, by name."""
    prices: Prices = field(default_factory=dict)
    """Dollars a million tokens, by role."""
    unpriced: set[str] = field(default_factory=set)
    """Roles that were asked and have no price, where there are prices: the method then has no
    cost, for the questions without these roles would say too little."""
    answered: int = 0
    failed: int = 0
    scores: dict[str, Values] = field(default_factory=dict)
    costs: dict[str, Values] = field(default_factory=dict)
    spent: Ledger = field(default_factory=Ledger)
    by_role: Ledger = field(default_factory=Ledger)
    """Tokens that the method asked for, by role."""
    estimated: bool = False
    """Whether any token count is an estimate."""
    scorings: set[str] = field(default_factory=set)
    errors: dict[str, int] = field(default_factory=dict)
    """Failed questions by the kind of error."""
    without_proxy: int = 0
    """Answered questions for which the proxy failed: the method went on without its draft."""
    gold_found: dict[str, int] = field(default_factory=dict)
    """Gold passages: `known`, and found by `id` and by `text`; questions `without` any."""
    judge: Ledger = field(default_factory=Ledger)
    """What the judge of the judged metrics was paid, or the cache answered for it."""
    judge_cost: float | None = None
    """Its price in US dollars, where it is known."""
    judged: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By judged metric: how many answers were judged, and how many replies could not be read."""
    nodes: dict[str, dict[str, Values]] = field(default_factory=dict)
    """By node: executions, and seconds elapsed and in total (`NodeSeconds`), of the timed questions
    that it ran for."""

    @property
    def label(self) -> str:
        """The system's label."""
        return self.system.label

    def add(self, record: Record) -> None:
        """Take a record in."""
        self.spent.add(record["spent"])
        self._add_judge(record)
        if record["error"]:
            self.failed += 1
            kind = record["error"]["kind"]
            self.errors[kind] = self.errors.get(kind, 0) + 1
            return
        self.answered += 1
        self.without_proxy += any(one["event"] == "proxy_failed" for one in record.get("notes", ()))
        self.scorings.add(record["scoring"])
        index, usage = record["at"], record["usage"]
        for name, value in record["scores"].items():
            if not math.isfinite(value):  # earlier versions kept what is no score
                continue
            if name not in self.scores:
                self.scores[name] = Values(aggregate=self.aggregates.get(name))
            self.scores[name].add(index, value)
        self._add_costs(record)
        if "gold_found" in record:  # runs of 0.1.0 and before don't say it
            self._add_gold(record["gold_found"])
        timed = record.get("node_seconds", {}) if _is_timed(record) else {}
        for node, taken in timed.items():
            for name, value in taken.items():
                self.nodes.setdefault(node, {}).setdefault(name, Values()).add(index, value)
        self.estimated = self.estimated or bool(usage["estimated"])
        self.by_role.add({"paid": usage["by_role"], "cached": {}})

    def _add_judge(self, record: Record) -> None:
        if judge := record.get("judge"):
            self.judge.add(judge["spent"])
            if judge["cost"] is not None:
                self.judge_cost = (self.judge_cost or 0.0) + judge["cost"]
        for name, said in record.get("judgements", {}).items():
            judged, unread = self.judged.get(name, (0, 0))
            self.judged[name] = judged + 1, unread + (said["value"] is None)

    def _add_costs(self, record: Record) -> None:
        index, usage = record["at"], record["usage"]
        large = usage["by_role"].get("answer", {}).get("calls", 0)
        if self.prices and "*" not in self.prices:
            paid = {role for role in usage["by_role"] if not is_free(role, self.prices)}
            self.unpriced |= paid - self.prices.keys()
        dollars = None if self.unpriced else cost(usage["by_role"], self.prices)
        seconds = record["seconds"] if _is_timed(record) else None
        costs = {**usage, "api_calls": large, "seconds": seconds, "cost": dollars}
        for name in COSTS:
            if costs[name] is not None:
                self.costs.setdefault(name, Values()).add(index, costs[name])
        if self.unpriced:
            self.costs.pop("cost", None)

    def _add_gold(self, found: Mapping[str, int]) -> None:
        for name, count in {**found, "without": int(not found["known"])}.items():
            self.gold_found[name] = self.gold_found.get(name, 0) + count


def _is_timed(record: Record) -> bool:
    """Say whether a question's seconds are the method's: no reply was cached or kept from before."""
    cached = any(tokens["calls"] for tokens in record["spent"]["cached"].values())
    return not (cached or record.get("resumed"))


@dataclass
class Experiment:
    """Runs that share all settings but the shard, as one."""

    settings: RunSettings
    directories: list[Path]
    columns: dict[str, Column]
    title: str = ""
    """What the report calls it where another one's directory has the same name."""

    @property
    def name(self) -> str:
        """What the report and its files call it: its directory's name, if that is the only one."""
        return self.title or self.directories[0].name

    @property
    def planned(self) -> int:
        """Questions that the directories together plan to answer."""
        return sum(RunDirectory(path).settings.planned for path in self.directories)

    @property
    def missing_shards(self) -> list[int]:
        """The shards of the run, counted from 1, that none of the directories holds."""
        there = {RunDirectory(path).settings.shard[0] for path in self.directories}
        return [part for part in range(1, self.settings.shard[1] + 1) if part not in there]

    @property
    def primaries(self) -> list[str]:
        """The name of the primary metric of each kind of scoring that occurs, at least one."""
        columns = self.columns.values()
        there = dict.fromkeys(name for column in columns for name in column.scores)
        scorings = {one for column in columns for one in column.scorings}
        infos = infos_of(self.settings.metrics)
        named = [primary_metric(one, there, infos) for one in get_args(Scoring) if one in scorings]
        found = dict.fromkeys(one for one in named if one is not None)
        return list(found) or [next(iter(there), METRICS.ours()[0].name)]

    @property
    def primary(self) -> str:
        """The name of the primary metric: the first of them, where there are several."""
        return self.primaries[0]

    @cached_property
    def ids(self) -> dict[int, str]:
        """The ids of the questions that have a record, by index; reads the records once more."""
        return {record["at"]: record["id"] for record in records(self)}

    def metric(self, name: str) -> MetricInfo:
        """Return what the report says of a metric: its label, direction and group."""
        return metric_info(name, self.settings.metrics)

    def metrics(self, group: str) -> list[MetricInfo]:
        """Return the metrics of a group that were computed, in the order of the report."""
        there = dict.fromkeys(name for column in self.columns.values() for name in column.scores)
        order = dict.fromkeys([one.name for one in infos_of(self.settings.metrics)])
        names = [*(name for name in order if name in there), *(n for n in there if n not in order)]
        return [one for one in map(self.metric, names) if one.group == group]


def read_runs(paths: Sequence[Path], *, metrics: Sequence[Metric] = ()) -> list[Experiment]:
    """Read runs; shards of one experiment become one.

    Args:
        paths: The runs' directories.
        metrics: Metrics of one's own, as `evaluate` took them: of those that aggregate their values
            in a way of their own a report that does not have them shows the mean.

    Raises:
        UsageError: A path is not a run, shards of one run overlap, or no question is finished yet.
    """
    found: dict[str, Experiment] = {}
    shards: dict[str, dict[tuple[int, int], Path]] = {}
    for path in paths:
        settings = RunDirectory(path).settings
        key = key_of(settings, {key: one.settings for key, one in found.items()})
        if key in found:
            check_apart(path, settings, found[key].settings, shards[key])
            found[key].directories.append(path)
        else:
            columns = {one.label: _column(one, settings, metrics) for one in settings.systems}
            found[key] = Experiment(settings, [path], columns)
        shards.setdefault(key, {})[settings.shard] = path
    for experiment in found.values():
        for record in records(experiment):
            experiment.columns[record["system"]].add(record)
        if not any(column.answered or column.failed for column in experiment.columns.values()):
            raise UsageError(f"{experiment.directories[0]}: no question is finished yet")
    _tell_apart(list(found.values()))
    return list(found.values())


def _tell_apart(experiments: Sequence[Experiment]) -> None:
    """Give experiments whose directories have one name names of their own."""
    taken = {one.name for one in experiments}
    for listed in _by_name(experiments):
        for number, one in enumerate(listed[1:], start=2):
            place = one.directories[0].absolute()
            name = f"{place.parent.name}-{place.name}"
            while name in taken:
                name, number = f"{place.name}-{number}", number + 1
            one.title = name
            taken.add(name)


def _by_name(experiments: Sequence[Experiment]) -> list[list[Experiment]]:
    found: dict[str, list[Experiment]] = {}
    for one in experiments:
        found.setdefault(one.name, []).append(one)
    return list(found.values())


def records(experiment: Experiment) -> Iterator[Record]:
    """Yield the experiment's records, one at a time."""
    return records_of([RunDirectory(path).results for path in experiment.directories])


def _column(system: System, settings: RunSettings, metrics: Sequence[Metric]) -> Column:
    declared = [one for info in infos_of(settings.metrics) if (one := METRICS.get(info.name))]
    own = {one.name: one.aggregate for one in [*declared, *metrics] if one.aggregate is not fmean}
    prices = {role: Price(*pair) for role, pair in settings.prices.items()}
    return Column(system, aggregates=own, prices=prices)


@dataclass(frozen=True)
class Table:
    """A heading, the columns' names, the rows' cells, and remarks below."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    remarks: Sequence[str] = ()
