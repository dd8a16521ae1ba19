"""The tables of `docs/effects.md`: what `benchmarks/real_models.py` measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ragweave.evaluation.report.pairs import holm

from ragweave.evaluation.metrics import Comparison, compare

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "real_models.json"
TABLES = (
    "methods-nq",
    "methods-hotpotqa",
    "fusion-skr",
    "fusion-nq",
    "filco-nq",
    "filco-hotpotqa",
    "slimplm-nq",
    "blendfilter-hotpotqa",
    "adaptive-hotpotqa",
)
"""Those that the page shows."""
SCORES = {"em": "EM", "f1": "F1", "contains": "Contains", "unknown": "%Unk"}
MORE = {"fusion": {"nm": "%NM"}}
"""Scores that some tables show beside those, by the name's beginning."""
BASELINES = {
    "filco": "filco full passages",
    "slimplm": "slimplm",
    "blendfilter": "blendfilter",
}
"""What a table's other systems are compared with, question by question, by its name's beginning;
others with `concat`."""
COMPARED = {"slimplm": "contains"}
"""The score that a table's systems are compared by, by its name's beginning; others by `f1`. Answers
in sentences hold more words than the gold answers, whose number F1 would compare."""
SURE = 0.05
"""The corrected p below which a difference is marked."""


def rows(name: str) -> list[list[str]]:
    """Return a table's rows, its head first.

    With the seconds, where they were measured apart, and the difference from the table's baseline.
    """
    one = json.loads(RESULTS.read_text("utf-8"))["tables"][name]
    systems = [line["system"] for line in one["systems"]]
    scores = SCORES | MORE.get(_kind(name), {})
    head = ["system", *scores.values(), "calls", "tokens"]
    lines = [head, *(_row(line, list(scores)) for line in one["systems"])]
    if "timed" in one:
        seconds = one["timed"]["seconds"]
        lines = _joined(lines, ["seconds", *(_seconds(seconds, one) for one in systems)])
    found = differences(name)
    shown = [_difference(*found[one]) if one in found else "" for one in systems]
    return _joined(lines, [f"{SCORES[_compared(name)]} − `{baseline(name)}`", *shown])


def baseline(name: str) -> str:
    """Return the system that a table's others are compared with."""
    return BASELINES.get(_kind(name), "concat")


def _compared(name: str) -> str:
    return COMPARED.get(_kind(name), "f1")


def _kind(name: str) -> str:
    return name.partition("-")[0]


def gains(name: str) -> set[str]:
    """Return the systems that score above the baseline, the whole interval of the difference."""
    return {system for system, (one, _) in differences(name).items() if round(one.low * 100, 1) > 0}


def differences(name: str) -> dict[str, tuple[Comparison, float]]:
    """Return by system how much it scores above the baseline over the same questions.

    With the 95% interval of a paired bootstrap, and the p of the paired randomization test,
    corrected for the table's comparisons (Holm 1979).
    """
    scores: dict[str, dict[int, float]] = {}
    for line in (RESULTS.parent / "real_models" / f"{name}.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        scores.setdefault(record["system"], {})[record["at"]] = record["scores"][_compared(name)]
    base = scores.pop(baseline(name))
    shared = sorted(set(base).intersection(*scores.values()))
    wanted = [base[at] for at in shared]
    most = len(scores) * 1000
    found = {
        system: compare([own[at] for at in shared], wanted, most=most)
        for system, own in scores.items()
    }
    corrected = holm([one.p for one in found.values()])
    return {system: (one, p) for (system, one), p in zip(found.items(), corrected, strict=True)}


def _difference(one: Comparison, p: float) -> str:
    """Return a cell: the difference, `*` behind it where it is sure."""
    told = f"{one.difference * 100:+.1f} [{one.low * 100:+.1f}, {one.high * 100:+.1f}]"
    return told + ("*" if p < SURE else "")


def _joined(lines: list[list[str]], ends: list[str]) -> list[list[str]]:
    return [[*line, end] for line, end in zip(lines, ends, strict=True)]


def caption(name: str) -> str:
    """Return what stands above a table."""
    found = json.loads(RESULTS.read_text("utf-8"))
    one = found["tables"][name]
    models = one.get("models") or found["models"]  # files of before name them once for all tables
    asked = f"{one['systems'][0]['questions']} questions of `{one['dataset']}`"
    timed = one.get("timed")
    seconds = f", seconds over {timed['questions']} of them, one at a time" if timed else ""
    named = f"{asked}, `{models['model']}` with `{models['proxy']}` as its proxy{seconds}"
    return f"{named}{_untimed(one['systems'], timed) if timed else ''}:"


def _untimed(systems: Sequence[Mapping[str, Any]], timed: Mapping[str, Any]) -> str:
    """Return which systems have no seconds: they were added, or their options changed, since."""
    missing = [one["system"] for one in systems if one["system"] not in timed["seconds"]]
    listed = ", ".join(f"`{one}`" for one in missing)
    return f" (not yet measured for {listed})" if missing else ""


def _row(line: Mapping[str, Any], scores: Sequence[str]) -> list[str]:
    tokens = line["input_tokens"] + line["output_tokens"]
    cells = [_score(line[key]) for key in scores]
    return [f"`{line['system']}`", *cells, f"{line['calls']:.1f}", f"{tokens:,.0f}"]


def _seconds(found: Mapping[str, float], system: str) -> str:
    return f"{found[system]:.1f}" if system in found else "–"


def _score(found: tuple[float, float, float]) -> str:
    mean, low, high = found
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"
