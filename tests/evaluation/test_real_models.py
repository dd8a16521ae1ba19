"""The benchmark of real models: answers are published, gone on from, and their calls written down."""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("matplotlib")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
ROWS = [
    {
        "id": str(number),
        "question": f"When was bridge {number} opened?",
        "answers": [str(1900 + number)],
        "passages": [f"Bridge {number} was opened in {1900 + number}.", "It is grey."],
    }
    for number in range(3)
]


@pytest.fixture
def real_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("real_models")
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), "utf-8")
    one = module.Comparison("jsonl:q.jsonl", module.named("concat,crag"), {"corpus": "given"})
    monkeypatch.setattr(module, "COMPARISONS", {"bridges": one})
    return module


@pytest.fixture
def run(real_models: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def with_options(runs: str, *more: str) -> dict[str, Any]:
        given = ["--tables", "bridges", "--model", "extractive", "--proxy", "extractive"]
        places = [
            "--data",
            str(tmp_path),
            "--results",
            str(tmp_path),
            "--runs",
            str(tmp_path / runs),
        ]
        monkeypatch.setattr(sys, "argv", ["real_models.py", *given, *places, *more])
        real_models.main()
        table = json.loads((tmp_path / "real_models.json").read_text("utf-8"))["tables"]["bridges"]
        return dict(table)

    return with_options


def calls_of(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_another_machine_goes_on_from_the_published_answers(run: Any, tmp_path: Path) -> None:
    first = run("here", "--questions", "3", "--calls", str(tmp_path / "first.gz"))
    asked = calls_of(tmp_path / "first.gz")
    assert {one["method"] for one in asked} == {"concat", "crag"}
    assert {one["node"] for one in asked} >= {"concat", "grade", "refine"}
    published = tmp_path / "real_models" / "bridges.jsonl"
    kept = published.read_text("utf-8").splitlines()
    assert len(kept) == 6
    published.write_text("\n".join(kept[:-2]) + "\n", "utf-8")
    second = run("there", "--questions", "3", "--published", "--calls", str(tmp_path / "second.gz"))
    assert second == first
    assert published.read_text("utf-8").splitlines() == kept
    assert 0 < len(calls_of(tmp_path / "second.gz")) < len(asked)


def test_seconds_are_measured_apart(run: Any) -> None:
    table = run("here", "--questions", "3")
    assert "timed" not in table
    timed = run("here", "--timed", "2")["timed"]
    assert timed["questions"] == 2
    assert timed["seconds"].keys() == {"concat", "crag"}
    assert run("here", "--questions", "3")["timed"] == timed
