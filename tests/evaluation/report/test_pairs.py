"""Paired tests of a run's methods: on every primary metric, corrected for their number."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path

import pytest
from tests.evaluation.files import write_lines
from tests.evaluation.towns import planned, run
from tests.scripted import ScriptedChat, Seen

from ragweave.evaluation.report import read_runs, tables_of, write_report
from ragweave.evaluation.report.pairs import holm, paired, pairs
from ragweave.evaluation.report.summary import Column, Values
from ragweave.evaluation.runs import claim_directory, parse_systems, plan, system


def test_holm_corrects_by_rank() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


def test_many_systems_can_still_differ() -> None:
    """33 systems make 528 pairs: no p of 10,000 sign flips would be left below .05."""
    columns = []
    for place in range(33):
        column = Column(system("direct", f"system {place}"))
        column.scores["f1"] = Values()
        for index in range(60):
            column.scores["f1"].add(index, place / 33 + (index * 7 % 11) / 1000 * (place % 3))
        columns.append(column)
    found = {(one.first, one.second): one.corrected for one in pairs(columns, "f1")}
    assert len(found) == 528
    assert found["system 0", "system 32"] < 0.01


def test_the_order_in_which_questions_ended_changes_no_interval() -> None:
    draw = random.Random(3)
    answers = [(index, draw.random()) for index in range(30)]
    found = []
    for seed in (1, 2):
        random.Random(seed).shuffle(answers)
        one, other = Values(), Values()
        for index, value in answers:
            one.add(index, value)
            other.add(index, 1 - value / 2)
        found.append((one.interval(), paired(one, other)))
    assert found[0] == found[1]


def test_only_questions_that_both_answered_are_compared(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat[k=1]")

    def breaks(seen: Seen) -> str | Exception:
        return ValueError("no") if "Lom" in seen.text and not seen.passages else "1900"

    run(directory, ScriptedChat(replies=breaks))
    (experiment,) = read_runs([directory.path])
    one, other = (column.scores["em"] for column in experiment.columns.values())
    found = paired(one, other)
    assert found is not None
    assert found.n == 5


def test_a_first_method_that_failed_takes_no_test_or_plot_away(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat[k=1],concat_pf[k=2]")

    def breaks(seen: Seen) -> str | Exception:
        return "1900" if seen.passages else ValueError("no")

    run(directory, ScriptedChat(replies=breaks, usage=(10, 2)))
    (experiment,) = read_runs([directory.path])
    assert (experiment.columns["direct"].failed, experiment.primaries) == (6, ["em"])
    tables = {table.title: table for table in tables_of(experiment)}
    assert [row[0] for row in tables["Differences"].rows] == ["concat[k=1] − concat_pf[k=2]"]
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    drawn = {path.name for path in write_report(tmp_path / "out", [experiment])}
    assert {"run-em.png", "run-tokens.png"} <= drawn


def test_each_way_of_scoring_has_its_primary_metric(tmp_path: Path) -> None:
    """Of six questions two are answered by yes or no: EM is over four, accuracy over two."""
    rows = [
        {
            "id": str(n),
            "question": f"Is {n} even, or what is it?",
            "answers": ["Yes"] if n < 2 else [str(n)],
            "answer_type": "yes_no" if n < 2 else "short",
        }
        for n in range(6)
    ]
    spec = f"jsonl:{write_lines(tmp_path / 'mixed.jsonl', *rows)}"
    made = plan(spec, parse_systems("direct,cot"), {"answer": "scripted"})
    directory = claim_directory(tmp_path / "run", made)
    run(directory, ScriptedChat(replies=lambda seen: "So the answer is: Yes.", usage=(10, 2)))
    (experiment,) = read_runs([directory.path])
    assert experiment.primaries == ["em", "accuracy"]
    tables = {table.title: table for table in tables_of(experiment)}
    for name, count in (("EM", "4"), ("Accuracy", "2")):
        assert [row[-1] for row in tables[f"Differences in {name}"].rows] == [count]
    told = " ".join(tables_of(experiment)[0].remarks)
    assert re.search(r"Over fewer than n questions: EM 4, F1 4, Accuracy 2", told)
    out = tmp_path / "out"
    files = write_report(
        out, [experiment], plots=importlib.util.find_spec("matplotlib") is not None
    )
    if len(files) > 3:
        names = {path.name for path in files}
        assert {"run-em.png", "run-accuracy.png", "run-tokens-em.png"} <= names
    assert "direct 100, cot 100" in (out / "report.html").read_text("utf-8")
