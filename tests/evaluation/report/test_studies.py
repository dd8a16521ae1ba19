"""The papers' studies: the right systems, and a plot of what they found."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.evaluation.towns import read_year, reader, run, towns
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents, nucleus

from ragweave import METHODS, build_graph
from ragweave.cli.gates import gate_tables
from ragweave.cli.study import NAMES
from ragweave.errors import UsageError
from ragweave.evaluation.report import Table, read_runs, tables_of
from ragweave.evaluation.report.tables import best_of_table
from ragweave.evaluation.runs import claim_directory, parse_systems, plan
from ragweave.evaluation.studies import STUDIES, plot_study, runs_of, values_of
from ragweave.nodes.uncertainty_gate import DRAFT_TEMPERATURE


def test_the_command_line_names_every_study() -> None:
    assert set(NAMES) == set(STUDIES)


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_makes_systems_that_exist(name: str) -> None:
    made = runs_of(STUDIES[name], [], [])
    labels = [system.label for one in made for system in one.systems]
    for one in made:
        for system in one.systems:
            system.resolved()
    if not STUDIES[name].runs:
        ends = 2 if name == "gate" else 1
        made_of = len(STUDIES[name].methods) * len(STUDIES[name].values) * ends
        assert len(labels) == len(set(labels)) == made_of


def test_the_ablation_takes_away_what_it_says() -> None:
    (one,) = runs_of(STUDIES["blendfilter"], [], [])
    options = {system.label: system.options for system in one.systems}
    assert options["blendfilter"] == {}
    assert options["blendfilter w/o q_ex"] == {"queries": ("question", "internal")}
    assert options["blendfilter w/o filter"] == {"knowledge_filter": False}
    with pytest.raises(UsageError, match="no variant 'w/o all'"):
        runs_of(STUDIES["blendfilter"], [], ["w/o all"])


def test_each_number_of_samples_is_drawn_at_one_temperature() -> None:
    (one,) = runs_of(STUDIES["samples"], ["concat"], ["1", "5"])
    assert [system.label for system in one.systems] == ["concat[samples=1]", "concat[samples=5]"]
    sampled = [system.resolved().sampling for system in one.systems]
    assert sampled == [{"temperature": 0.7}] * 2


def test_values_are_tried_once_and_are_numbers_where_numbers_are_wanted() -> None:
    assert values_of(STUDIES["k"], ["1", "1", "2"], "m", "")[0] == ["1", "2"]
    with pytest.raises(UsageError, match="'high' is no number"):
        runs_of(STUDIES["sampling"], ["concat"], ["high"])


def test_each_retriever_is_a_run_of_its_own() -> None:
    made = runs_of(STUDIES["retriever"], ["concat"], ["bm25", "hybrid"])
    assert [(one.folder, one.settings["retriever"]) for one in made] == [
        ("bm25", "bm25"),
        ("hybrid", "hybrid"),
    ]


def test_filco_measures_by_cxmi_wherever_something_can_score() -> None:
    study, every = STUDIES["filco"], ["full passages", "strinc", "lexical", "cxmi"]
    assert values_of(study, [], "llamacpp:m.gguf?n_ctx=512", "") == (every, "")
    assert values_of(study, [], "openai:m", "hf:flan") == (every, "")
    left, told = values_of(study, [], "openai:m", "")
    assert left == every[:-1]
    assert told.startswith("Left out cxmi: needs log-probabilities of the answer, which openai:m")
    assert "\n" not in told
    assert values_of(study, ["strinc"], "openai:m", "") == (["strinc"], "")
    with pytest.raises(UsageError, match="--scorer hf:NAME"):
        values_of(study, ["cxmi"], "openai:m", "")


@pytest.mark.parametrize(("name", "values"), [("k", ["1", "2"]), ("order", [])])
def test_a_study_is_run_and_drawn(name: str, values: list[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    study = STUDIES[name]
    (one,) = runs_of(study, ["concat"], values)
    data = f"jsonl:{towns(tmp_path, 4)}"
    made = plan(data, one.systems, {"answer": "scripted"}, **one.settings)
    directory = claim_directory(tmp_path / "run", made)
    run(directory, reader())
    found = plot_study(tmp_path / "plots", study, {"run": read_runs([directory.path])[0]})
    assert [path.suffix for path in found] == [".png", ".svg"]
    svg = found[1].read_text("utf-8")
    assert "EM (%), 95% interval" in svg
    if study.axis:
        assert study.axis in svg


def test_of_several_answers_the_best_counts(tmp_path: Path) -> None:
    (one,) = runs_of(STUDIES["sampling"], ["cot"], [])
    assert [system.options for system in one.systems] == [
        {"retrieve": True, "top_p": value} for value in (0.0, 0.5, 1.0)
    ]
    data = f"jsonl:{towns(tmp_path, 4)}"
    directory = claim_directory(tmp_path / "run", plan(data, one.systems, {"answer": "scripted"}))

    def said(seen: Seen) -> str:
        right = {0.0: "Varn", 0.5: "Lom"}
        town = right.get(nucleus(seen), "none")
        question = seen.task["question"] if seen.task else ""
        return f"So the answer is {read_year(seen) if f'of {town} ' in question else 1492}."

    run(directory, ScriptedChat(replies=said, temperature=0.0))
    (experiment,) = read_runs([directory.path])
    table = best_of_table(experiment)
    assert table is not None
    (row,) = table.rows
    assert row[:2] == ["cot[retrieve=True]", "3"]
    one_by_one = [column.scores["em"].mean for column in experiment.columns.values()]
    assert one_by_one == [0.25, 0.25, 0.0]
    assert row[2].startswith("50.0 ")


def test_methods_under_different_settings_are_told(tmp_path: Path) -> None:
    data = f"jsonl:{towns(tmp_path, 1)}"
    for shared, told in (({}, True), ({"k": 5}, False)):
        systems = parse_systems("concat,slimplm", shared)
        directory = claim_directory(
            tmp_path / str(told), plan(data, systems, {"answer": "scripted"})
        )
        run(directory, reader())
        (experiment,) = read_runs([directory.path])
        remarks = " ".join(tables_of(experiment)[0].remarks)
        assert ("Methods differ in k (5: concat; 10: slimplm)" in remarks) is told


def _of_gate(
    at: int, end: str, em: float, uncertainty: float | None, **more: bool
) -> dict[str, Any]:
    detail = {"gate": "margin", "uncertainty": uncertainty, **more}
    return {
        "at": at,
        "system": f"uncertainty_gate margin: {end}",
        "error": None,
        "scores": {"em": em},
        "notes": [{"event": "gated", "detail": detail}],
    }


Asked = tuple[float | None, float, float]
"""A question's uncertainty, and its score without retrieval and with it."""


def _gate_table(asked: list[Asked], folder: Path) -> Table:
    lines = [
        _of_gate(at, end, em, uncertainty)
        for at, (uncertainty, *scores) in enumerate(asked)
        for end, em in zip(("never", "always"), scores, strict=True)
    ]
    lines.append(_of_gate(len(asked), "never", 1.0, 0.3))  # its other end failed
    file = folder / "results.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    found: Any = SimpleNamespace(results=file)
    (table,) = gate_tables(found, {}, "em")
    return table


def test_a_gates_threshold_is_the_best_within_each_share(tmp_path: Path) -> None:
    asked: list[Asked] = [(0.1, 1, 0), (0.2, 1, 1), (0.6, 0, 1), (0.9, 0, 1), (None, 0, 1)]
    table = _gate_table(asked, tmp_path)
    assert table.rows[1:4] == [
        ["40%", "0.600", "80.0", "40%"],
        ["60%", "0.200", "100.0", "60%"],
        ["80%", "0.200", "100.0", "60%"],
    ]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([1 - 2 / 3, 1 - 2 / 3, 1 - 2 / 3, 2 / 3, 0.0], "0.334"),
        ([0.33341, 0.33341, 0.33341, 0.33344, 0.0], "0.33341"),
        ([1 / 3, 1 / 3, 1 / 3, math.nextafter(1 / 3, 1), 0.0], repr(1 / 3)),
    ],
)
def test_a_printed_threshold_does_what_its_row_says(
    values: list[float], shown: str, tmp_path: Path
) -> None:
    asked: list[Asked] = [(one, int(at < 3), int(at == 3)) for at, one in enumerate(values)]
    row = _gate_table(asked, tmp_path).rows[0]
    assert row == ["20%", shown, "80.0", "20%"]
    assert [at for at, one in enumerate(values) if one > float(row[1])] == [3]


def test_gates_of_other_methods_are_routes() -> None:
    (one,) = runs_of(STUDIES["gate"], ["adaptive"], ["variance"])
    assert [system.options["route"] for system in one.systems] == ["uncertainty"] * 2
    assert [system.options["route_threshold"] for system in one.systems] == [1e9, -1.0]


@pytest.mark.parametrize("method", ["uncertainty_gate", "slimplm", "adaptive"])
def test_the_end_that_never_retrieves_does_so_where_the_answer_is_unknown_too(method: str) -> None:
    def reply(seen: Seen) -> str:
        drafted = seen.settings.get("temperature") == DRAFT_TEMPERATURE
        recalled = seen.task is not None and seen.task["task"] == "recall"
        return "Ada Brenner" if drafted or recalled else "Unknown"

    (made,) = runs_of(STUDIES["gate"], [method], ["variance"])
    retrievals = {}
    for system in made.systems:
        graph = build_graph(
            METHODS[method],
            model=ScriptedChat(replies=reply),
            retriever=ListRetriever(documents=documents("Ada Brenner built it.")),
            **system.options,
        )
        retrievals[system.label] = graph.invoke({"question": "Who?"})["usage"]["retrievals"]
    never, always = retrievals.values()
    assert (never, always > 0) == (0, True)
