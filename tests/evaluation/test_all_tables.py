"""Every table on each of its data sets, over made questions, with trained components made from twenty rows."""

from pathlib import Path

import pytest
from benchmarks.all_tables import run_tables
from tests.tiny_encoder import make_tiny_encoder
from tests.tiny_models import make_tiny_t5
from tests.training.labels import filter_row, judge_row, write_rows

from ragweave.evaluation.reproduce import listing


def test_a_table_runs_on_each_of_its_data_sets(tmp_path: Path) -> None:
    lines = dict(run_tables("slimplm", "table4", tmp_path, models={}, filters={}))
    assert [line.split()[2] for line in lines] == ["asqa", "nq", "triviaqa", "musique", "eli5"]
    assert all("2 answers, 0 failed, 1 rows" in line and is_good for line, is_good in lines.items())
    [(trained, is_good), *_] = run_tables("filco", "table5", tmp_path, models={}, filters={})
    assert ("not run: filco table5" in trained, is_good) == (True, True)  # no component is at hand


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")  # the libraries' own warnings
def test_all_tables_run_on_all_of_their_data_sets(tmp_path: Path) -> None:
    for module in ("torch", "transformers", "accelerate", "rouge_score", "sklearn"):
        pytest.importorskip(module)
    from ragweave.training import train

    base = {"base": str(make_tiny_encoder(tmp_path / "base")), "batch": 8, "epochs": 1, "held_out": 0.2}
    train(
        "filter", write_rows(tmp_path / "filter.jsonl", map(filter_row, range(20))), tmp_path / "filter", settings=base
    )
    train("judge", write_rows(tmp_path / "judge.jsonl", map(judge_row, range(20))), tmp_path / "judge")
    models = {"scorer": f"hf:{make_tiny_t5(tmp_path / 't5')}", "judge": f"{tmp_path / 'judge'}/"}
    filters = {"": f"{tmp_path / 'filter'}/"}
    outcomes = dict(run_tables("", "", tmp_path / "runs", models=models, filters=filters))
    assert all(outcomes.values()), outcomes
    tables = [(paper, table, dataset) for paper, table, _, sets in listing() for dataset in sets.split(", ")]
    assert len(tables) == 91
    for paper, table, dataset in tables:
        lines = [line for line in outcomes if line.startswith(f"{paper} {table} {dataset}")]
        assert lines
        assert all(" 0 failed" in line and "needs" not in line.replace("needs its own proxy", "") for line in lines)
