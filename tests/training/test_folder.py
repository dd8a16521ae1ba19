from __future__ import annotations

import errno
import json
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


@pytest.mark.parametrize("left", ["training.json", ".training.lock", "../.judge.checkpoints/state"])
def test_what_a_kill_behind_the_end_left_is_cleared(tmp_path: Path, left: str) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    finish_folder(folder, CARD)
    (folder / left).parent.mkdir(exist_ok=True)
    (folder / left).write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="already holds a trained part"):
        begin_folder(folder, PLAN, resume=False)
    assert [one.name for one in tmp_path.iterdir()] == ["judge"]
    assert sorted(one.name for one in folder.iterdir()) == ["README.md", "part.json"]


def test_a_training_that_is_about_to_end_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "judge"
    begin_folder(folder, PLAN, resume=False)
    with only_training(folder):
        finish_folder(folder, CARD)
        with pytest.raises(UsageError, match="is training into it"):
            begin_folder(folder, PLAN, resume=False)


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


@pytest.mark.parametrize(
    ("name", "first", "then"),
    [
        ("micro_batch", 16, 4),
        ("gradient_checkpointing", False, True),
        ("save_every", 200, 50),
        ("device", "cuda", "cpu"),
    ],
)
def test_how_to_compute_may_change_and_is_recorded(
    tmp_path: Path, name: str, first: object, then: object
) -> None:
    begin_folder(tmp_path / "j", {**PLAN, "settings": {"epochs": 3.0, name: first}}, resume=False)
    begin_folder(tmp_path / "j", {**PLAN, "settings": {"epochs": 3.0, name: then}}, resume=True)
    begun = json.loads((tmp_path / "j" / "training.json").read_text("utf-8"))
    assert begun["settings"] == {"epochs": 3.0, name: then}
    with pytest.raises(UsageError, match=r"other settings \(epochs: 3.0, now 4.0\)"):
        begin_folder(tmp_path / "j", {**PLAN, "settings": {"epochs": 4.0, name: 1}}, resume=True)
    again = json.loads((tmp_path / "j" / "training.json").read_text("utf-8"))
    assert again == begun


@pytest.fixture(params=[errno.EXDEV, errno.EACCES])
def mounted(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """A folder that nothing can be put beside, and that cannot be removed: a mount point."""
    folder, replace, rmdir = tmp_path / "judge", Path.replace, Path.rmdir

    def within(self: Path, target: Path) -> Path:
        if not target.resolve().is_relative_to(folder):
            raise OSError(request.param, "no place")
        return replace(self, target)

    def inner(self: Path) -> None:
        if self == folder:
            raise OSError(errno.EBUSY, "is a mount point")
        rmdir(self)

    folder.mkdir()
    monkeypatch.setattr(Path, "replace", within)
    monkeypatch.setattr(Path, "rmdir", inner)
    return folder


def test_a_mount_point_becomes_a_part_too(mounted: Path) -> None:
    begin_folder(mounted, PLAN, resume=False)
    with only_training(mounted):
        assert [one.name for one in mounted.parent.iterdir()] == ["judge"]
        (mounted / "checkpoints" / "checkpoint-1").mkdir(parents=True)
        finish_folder(mounted, CARD)
    assert read_card(mounted) == CARD
    assert sorted(one.name for one in mounted.iterdir()) == ["README.md", "part.json"]
    check_safe(mounted)


def test_a_mount_point_is_left_empty_by_a_training_that_saved_nothing(mounted: Path) -> None:
    begin_folder(mounted, PLAN, resume=False)
    with only_training(mounted):
        abandon_folder(mounted)
    assert list(mounted.iterdir()) == []
    begin_folder(mounted, PLAN, resume=False)


def test_other_errors_of_a_rename_keep_the_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Path, target: Path) -> Path:
        raise OSError(errno.EIO, "broken disk")

    begin_folder(tmp_path / "j", PLAN, resume=False)
    (tmp_path / "j" / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (tmp_path / "j" / "README.md").write_text("", "utf-8")
    monkeypatch.setattr("ragweave.training.folder.write_atomic", lambda *_, **__: None)
    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="broken disk"):
        finish_folder(tmp_path / "j", CARD)
    assert (tmp_path / "j" / "checkpoints" / "checkpoint-1").is_dir()


def test_a_lock_that_a_killed_training_left_is_no_hindrance(tmp_path: Path) -> None:
    folder = tmp_path / "j"
    folder.mkdir()
    (folder / ".training.lock").write_text("\n1", "utf-8")
    begin_folder(folder, PLAN, resume=False)
    with only_training(folder):
        abandon_folder(folder)
    assert not folder.exists()


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
    with only_training(folder), pytest.raises(UsageError, match="is training into it"):
        begin_folder(folder, PLAN, resume=True)
    assert [one.name for one in tmp_path.iterdir()] == ["judge"]
    assert [one.name for one in folder.iterdir()] == ["training.json"]
