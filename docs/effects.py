"""The tables of `docs/effects.md`: what `benchmarks/real_models.py` measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragweave.evaluation.metrics import compare
from ragweave.evaluation.report.pairs import holm

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "real_models.json"
TABLES = ("methods-nq", "methods-hotpotqa", "filco-nq", "filco-hotpotqa")
"""Those that the page shows."""
SCORES = {"em": "EM", "f1": "F1", "contains": "Contains", "unknown": "%Unk"}
HEAD = ["system", *SCORES.values(), "calls", "tokens"]
BASELINES = {"methods": "concat", "filco": "filco full passages"}
"""What a table's other systems are compared with, question by question, by its name's beginning."""
SURE = 0.05
"""The corrected p below which a difference is marked."""


def rows(name: str) -> list[list[str]]:
    """Return a table's rows, its head first.

    With the seconds, where they were measured apart, and the difference from the table's baseline.
    """
    one = json.loads(RESULTS.read_text("utf-8"))["tables"][name]
    systems = [line["system"] for line in one["systems"]]
    lines = [HEAD, *map(_row, one["systems"])]
    if "timed" in one:
        seconds = one["timed"]["seconds"]
        lines = _joined(lines, ["seconds", *(f"{seconds[system]:.1f}" for system in systems)])
    found = differences(name)
    return _joined(lines, [f"F1 − `{baseline(name)}`", *(found.get(one, "") for one in systems)])


def baseline(name: str) -> str:
    """Return the system that a table's others are compared with."""
    return BASELINES[name.partition("-")[0]]


def differences(name: str) -> dict[str, str]:
    """Return by system how much its F1 exceeds the baseline's over the same questions.

    With the 95% interval of a paired bootstrap; `*` where the paired randomization test finds a
    difference, its p corrected for the table's comparisons (Holm 1979).
    """
    scores: dict[str, dict[int, float]] = {}
    for line in (RESULTS.parent / "real_models" / f"{name}.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        scores.setdefault(record["system"], {})[record["at"]] = record["scores"]["f1"]
    base = scores.pop(baseline(name))
    shared = sorted(set(base).intersection(*scores.values()))
    wanted = [base[at] for at in shared]
    most = len(scores) * 1000
    found = {
        system: compare([own[at] for at in shared], wanted, most=most)
        for system, own in scores.items()
    }
    corrected = holm([one.p for one in found.values()])
    return {
        system: f"{one.difference * 100:+.1f} [{one.low * 100:+.1f}, {one.high * 100:+.1f}]"
        + ("*" if p < SURE else "")
        for (system, one), p in zip(found.items(), corrected, strict=True)
    }


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
    return f"{asked}, `{models['model']}` with `{models['proxy']}` as its proxy{seconds}:"


def _row(line: Mapping[str, Any]) -> list[str]:
    tokens = line["input_tokens"] + line["output_tokens"]
    scores = [_score(line[key]) for key in SCORES]
    return [f"`{line['system']}`", *scores, f"{line['calls']:.1f}", f"{tokens:,.0f}"]


def _score(found: tuple[float, float, float]) -> str:
    mean, low, high = found
    return f"{mean:.1f} [{low:.1f}, {high:.1f}]"
