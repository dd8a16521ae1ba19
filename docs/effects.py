"""The tables of `docs/effects.md`: what `benchmarks/real_models.py` measured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "real_models.json"
TABLES = ("methods-nq", "methods-hotpotqa", "filco-nq")
"""Those that the page shows."""
SCORES = {"em": "EM", "f1": "F1", "contains": "Contains", "unknown": "%Unk"}
HEAD = ["system", *SCORES.values(), "calls", "tokens"]


def rows(name: str) -> list[list[str]]:
    """Return a table's rows, its head first; seconds where they were measured apart."""
    one = json.loads(RESULTS.read_text("utf-8"))["tables"][name]
    lines = [HEAD, *map(_row, one["systems"])]
    if "timed" not in one:
        return lines
    seconds = one["timed"]["seconds"]
    told = (f"{seconds[line['system']]:.1f}" for line in one["systems"])
    return [[*line, end] for line, end in zip(lines, ("seconds", *told), strict=True)]


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
