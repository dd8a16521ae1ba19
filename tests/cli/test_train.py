"""`ragweave train`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.extras import needs
from tests.training.labels import judge_row, write_rows
from typer.testing import CliRunner

from ragweave.cli.train import train

needs("sklearn")


def run(*words: str) -> tuple[int, str]:
    """Run the command; return exit code and output."""
    import typer

    app = typer.Typer()
    app.command()(train)
    done = CliRunner().invoke(app, list(words))
    return done.exit_code, done.output or str(done.exception)


def test_a_judge_is_trained_from_labels_and_shown(tmp_path: Path) -> None:
    write_rows(tmp_path / "labels.jsonl", map(judge_row, range(40)))
    code, output = run("judge", str(tmp_path), str(tmp_path / "judge"), "--set", "folds=4", "--set", "held-out=0.2")
    assert code == 0
    assert "a judge (linear) from minilm" in output
    assert "auc: 1.000" in output
    assert "--method slimplm --model judge=" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("poet",), "unknown role 'poet'"),
        (("judge", "--set", "folds"), "is name=value, not 'folds'"),
        (("judge", "--set", "epochs=3"), "setting epochs of a linear judge"),
        (("judge", "--kind", "bi-encoder"), "can't be trained as a judge"),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    labels = write_rows(tmp_path / "labels.jsonl", [judge_row(0)])
    role, *more = words
    code, output = run(role, str(labels), str(tmp_path / "out"), *more)
    assert code != 0
    assert message in output
