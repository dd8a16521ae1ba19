"""Counts the trials of the attacks; `make attack` writes them down."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "attacks.json"


class Part:
    """The trials of a test of many, or of all tests of one function that are a trial each."""

    def __init__(self) -> None:
        self.trials = self.expected = 0
        self.failed: set[str] = set()
        self.ran: set[str] = set()

    def as_json(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the table keeps of it: of each test its last result."""
        failed = self.failed | (set(before.get("failed", ())) - self.ran)
        made: dict[str, Any] = {"trials": max(self.trials, before.get("trials", 0))}
        made |= {"failed": sorted(failed)} if failed else {}
        return made | ({"expected": self.expected} if self.expected else {})


WHOLE = "all"
"""The part of an attack whose parts were not counted."""

_parts: dict[str, dict[str, Part]] = defaultdict(lambda: defaultdict(Part))
_of_many: set[str] = set()
"""Tests that make many trials: each is a part of its own, which may be run alone."""


def _part(nodeid: str) -> Part:
    file, _, test = nodeid.partition("::")
    attack = Path(file).stem.removeprefix("test_")
    return _parts[attack][test if nodeid in _of_many else test.partition("[")[0]]


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Give what counts the further trials of a test that makes many."""
    _of_many.add(request.node.nodeid)

    def count(number: int) -> None:
        _part(request.node.nodeid).trials += number

    yield count


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test that ran as a trial, and note what failed."""
    if report.when != "call" or "attacks" not in report.nodeid:
        return
    part = _part(report.nodeid)
    if report.skipped and not hasattr(report, "wasxfail"):
        return
    part.trials += 1
    part.expected += hasattr(report, "wasxfail") and report.skipped
    part.ran.add(report.nodeid.partition("::")[2])
    if report.failed:
        part.failed.add(report.nodeid.partition("::")[2])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of the long form; what was not run this time stays as it was."""
    if not session.config.getoption("--long") or not _parts:
        return
    before = json.loads(RESULTS.read_text("utf-8"))["attacks"] if RESULTS.exists() else []
    parts: dict[str, dict[str, Any]] = {one["attack"]: one["parts"] for one in before}
    for attack, ran in _parts.items():
        known = parts.setdefault(attack, {})
        known.pop(WHOLE, None)
        known.update({name: one.as_json(known.get(name, {})) for name, one in ran.items()})
    rows = [_row(attack, parts[attack]) for attack in sorted(parts)]
    RESULTS.write_text(json.dumps({"attacks": rows}, indent=2) + "\n", "utf-8")


def _row(attack: str, parts: dict[str, Any]) -> dict[str, Any]:
    failed = [one for part in parts.values() for one in part.get("failed", ())]
    return {
        "attack": attack,
        "trials": sum(part["trials"] for part in parts.values()),
        "failures": len(failed),
        "known failures": sum(part.get("expected", 0) for part in parts.values()),
        "parts": dict(sorted(parts.items())),
    }
