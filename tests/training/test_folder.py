from __future__ import annotations

from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.trained import ModelCard, check_safe, is_part, read_card
from ragweave.training.folder import (
    abandon_folder,
    begin_folder,
    finish_folder,
    only_training,
)
from ragweave.training.rows import write_question_hashes

PLAN = {"role": "judge", "settings": {"epochs": 3.0, "seed": 0}, "data": {"files": ("a",)}}
CARD = ModelCard(
    role="judge",
    kind="cross-encoder",
    base="minilm",
    threshold=0.25,
    threshold_from="the rows below",
    metrics={"auc": {"mean": 0.7, "low": 0.6, "high": 0.8}, "out_of_fold_auc": 0.65},
    data={"files": [{"file": "a|b.jsonl", "sha256": "00"}]},
)


def test_a_training_is_begun_gone_on_with_and_finished(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "judge"
    begin_folder(folder, PLAN, resume=False)
    (folder / "checkpoints" / "step-1").mkdir(parents=True)
    with pytest.raises(UsageError, match="resume it with --resume"):
        begin_folder(folder, PLAN, resume=False)
    begin_folder(folder, PLAN, resume=True)
    finish_folder(folder, CARD)
    assert read_card(folder) == CARD
    assert sorted(one.name for one in folder.iterdir()) == ["README.md", "part.json"]
    with pytest.raises(UsageError, match="already holds a trained part"):
        begin_folder(folder, PLAN, resume=True)


def test_checkpoints_stay_until_the_folder_is_a_part(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    (folder / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (folder / "part.json").mkdir()  # the card cannot be written
    with pytest.raises(IsADirectoryError):
        finish_folder(folder, CARD)
    assert not is_part(folder)
    (folder / "part.json").rmdir()
    begin_folder(folder, PLAN, resume=True)
    assert (folder / "checkpoints" / "checkpoint-1").is_dir()
    finish_folder(folder, CARD)
    check_safe(folder)
    assert [one.name for one in tmp_path.iterdir()] == ["judge"]


def test_a_draft_of_a_plan_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / "j").mkdir()
    (tmp_path / "j" / ".training.json.new").write_text("{", "utf-8")
    begin_folder(tmp_path / "j", PLAN, resume=False)
    assert [one.name for one in (tmp_path / "j").iterdir()] == ["training.json"]


def test_what_a_killed_writer_left_is_gone_when_the_part_is_done(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    for name in ("README.md", "part.json", "questions.json"):
        (folder / f".{name}.1-aa.new").write_text("half", "utf-8")
    write_question_hashes(folder, [], [])
    finish_folder(folder, CARD)
    assert sorted(one.name for one in folder.iterdir()) == sorted(
        ["README.md", "part.json", "questions.json"]
    )


def test_a_plan_left_behind_by_a_kill_is_cleared(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    finish_folder(folder, CARD)
    (folder / "training.json").write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="already holds a trained part"):
        begin_folder(folder, PLAN, resume=True)
    assert not (folder / "training.json").exists()


def test_a_training_that_saved_nothing_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    (folder / "checkpoints").mkdir()
    abandon_folder(folder)
    assert not folder.exists()
    begin_folder(folder, PLAN, resume=False)
    (folder / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    abandon_folder(folder)
    begin_folder(folder, PLAN, resume=True)


def test_a_training_goes_on_only_as_it_began(tmp_path: Path) -> None:
    begin_folder(tmp_path / "j", PLAN, resume=False)
    other = {**PLAN, "settings": {"epochs": 4.0, "seed": 0}}
    with pytest.raises(UsageError, match=r"other settings \(epochs: 3.0, now 4.0\)"):
        begin_folder(tmp_path / "j", other, resume=True)


def test_foreign_folders_and_nothing_to_resume(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("dear", "utf-8")
    with pytest.raises(UsageError, match="holds no training"):
        begin_folder(tmp_path / "mine", PLAN, resume=False)
    with pytest.raises(UsageError, match="no training to resume"):
        begin_folder(tmp_path / "none", PLAN, resume=True)
    with pytest.raises(UsageError, match="cannot be written"):
        begin_folder(tmp_path / "mine" / "thesis.txt" / "x", PLAN, resume=False)
    assert [one.name for one in (tmp_path / "mine").iterdir()] == ["thesis.txt"]


def test_the_model_card_says_what_the_part_is(tmp_path: Path) -> None:
    finish_folder(tmp_path, CARD)
    text = (tmp_path / "README.md").read_text("utf-8")
    assert text.startswith('---\nbase_model: "minilm"\n')
    assert "--option judge=" in text
    assert "Threshold: 0.2500, chosen on the rows below." in text
    assert "## Measured on held-out rows\n\n| | |\n|---|---|\n| auc: mean | 0.7 |" in text
    assert "## Measured on training rows, out of fold\n\n| | |\n|---|---|\n| out of fold" in text
    assert "| auc: low | 0.6 |" in text
    assert "a\\|b.jsonl" in text


def test_two_processes_do_not_train_into_one_folder(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    with (
        only_training(folder),
        pytest.raises(UsageError, match=r"process \d+ is training into it"),
        only_training(folder),
    ):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ["judge"]
