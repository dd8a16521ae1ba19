"""`ragweave train`."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import run
from tests.extras import needs
from tests.training.labels import judge_row, write_rows

needs("sklearn")


def test_a_judge_is_trained_from_labels_and_shown(tmp_path: Path) -> None:
    write_rows(tmp_path / "labels.jsonl", map(judge_row, range(40)))
    given = (str(tmp_path), str(tmp_path / "judge"), "--set", "folds=4", "--set", "held-out=0.2")
    done = run("train", "judge", *given)
    assert done.returncode == 0, done.stderr
    assert "a judge (linear) from minilm" in done.stdout
    assert "auc: 1.000" in done.stdout
    assert "--method slimplm --model judge=" in done.stderr


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
    done = run("train", role, str(labels), str(tmp_path / "out"), *more)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert message in done.stderr
