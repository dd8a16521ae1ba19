"""The papers' studies: the right systems, and a plot of what they found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evaluation.towns import reader, run, towns

from ragweave.cli.study import NAMES
from ragweave.errors import UsageError
from ragweave.evaluation.report import read_runs
from ragweave.evaluation.runs import claim_directory, plan
from ragweave.evaluation.studies import STUDIES, plot_study, runs_of, values_of


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
        assert (
            len(labels)
            == len(set(labels))
            == len(STUDIES[name].methods) * len(STUDIES[name].values)
        )


def test_the_ablation_takes_away_what_it_says() -> None:
    (one,) = runs_of(STUDIES["blendfilter"], [], [])
    options = {system.label: system.options for system in one.systems}
    assert options["blendfilter"] == {}
    assert options["blendfilter w/o q_ex"] == {"queries": ("question", "internal")}
    assert options["blendfilter w/o filter"] == {"knowledge_filter": False}
    with pytest.raises(UsageError, match="no variant 'w/o all'"):
        runs_of(STUDIES["blendfilter"], [], ["w/o all"])


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
