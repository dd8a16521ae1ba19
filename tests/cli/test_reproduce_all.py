"""Every table on each of its data sets, with trained components made from twenty rows."""

from pathlib import Path

import pytest
from tests.tiny_encoder import make_tiny_encoder
from tests.tiny_models import make_tiny_t5
from tests.training.labels import filter_row, judge_row, write_rows
from typer.testing import CliRunner

from ragweave.cli.main import app
from ragweave.evaluation.reproduce import listing

for module in ("torch", "transformers", "accelerate", "rouge_score", "sklearn"):
    pytest.importorskip(module)
pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("default")]  # the libraries' own warnings


def test_all_tables_run_on_all_of_their_data_sets(tmp_path: Path) -> None:
    from ragweave.training import train

    base = {"base": str(make_tiny_encoder(tmp_path / "base")), "batch": 8, "epochs": 1, "held_out": 0.2}
    train(
        "filter", write_rows(tmp_path / "filter.jsonl", map(filter_row, range(20))), tmp_path / "filter", settings=base
    )
    train("judge", write_rows(tmp_path / "judge.jsonl", map(judge_row, range(20))), tmp_path / "judge")
    models = [f"scorer=hf:{make_tiny_t5(tmp_path / 't5')}", f"judge={tmp_path / 'judge'}/"]
    chosen = [text for model in models for text in ("--model", model)]
    out = ["--filter", f"{tmp_path / 'filter'}/", "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, ["reproduce", "--all", "--tiny", *chosen, *out])
    assert done.exit_code == 0, done.output
    tables = [(paper, table, dataset) for paper, table, _, sets in listing() for dataset in sets.split(", ")]
    assert len(tables) == 88
    for paper, table, dataset in tables:
        lines = [line for line in done.stdout.splitlines() if line.startswith(f"{paper} {table} {dataset}")]
        assert lines
        assert all(" 0 failed" in line and "needs" not in line.replace("needs its own proxy", "") for line in lines)
