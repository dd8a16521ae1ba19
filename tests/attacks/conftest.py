"""Counts the trials of the attacks; `make attack` writes them down."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "attacks.json"

_trials: dict[str, int] = defaultdict(int)
_failures: dict[str, list[str]] = defaultdict(list)
_expected: dict[str, int] = defaultdict(int)


def _attack(nodeid: str) -> str:
    return Path(nodeid.partition("::")[0]).stem.removeprefix("test_")


@pytest.fixture
def trials(request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Give what counts the further trials of a test that makes many."""
    name = _attack(request.node.nodeid)

    def count(number: int) -> None:
        _trials[name] += number

    yield count


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Count a test that ran as a trial, and note what failed."""
    if report.when != "call" or "attacks" not in report.nodeid:
        return
    name = _attack(report.nodeid)
    _trials[name] += 1
    _expected[name] += hasattr(report, "wasxfail") and report.skipped
    if report.failed:
        _failures[name].append(report.nodeid.partition("::")[2])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of the long form; rows of attacks that were not run stay."""
    if not session.config.getoption("--long") or not _trials:
        return
    rows = [
        {
            "attack": name,
            "trials": _trials[name],
            "failures": len(_failures[name]),
            "failed": sorted(_failures[name]),
            "known failures": _expected[name],
        }
        for name in sorted(_trials)
    ]
    before = json.loads(RESULTS.read_text("utf-8"))["attacks"] if RESULTS.exists() else []
    rows += [row for row in before if row["attack"] not in _trials]
    rows.sort(key=lambda row: str(row["attack"]))
    RESULTS.write_text(json.dumps({"attacks": rows}, indent=2) + "\n", "utf-8")
