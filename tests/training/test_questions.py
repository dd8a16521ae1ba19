"""A part that begins from another is measured on questions that neither has seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragweave.errors import UsageError
from ragweave.trained import ModelCard, PartRole, write_card
from ragweave.training.rows import (
    QUESTIONS,
    SilverRow,
    question_hash,
    read_question_hashes,
    read_rows,
    write_question_hashes,
)
from ragweave.training.train import plan_training


def row(number: int) -> SilverRow:
    text = f"It was opened in {number}. It rained."
    return {
        "id": f"r{number}",
        "question": f"When was bridge {number} opened?",
        "answers": [str(number)],
        "passages": [{"id": "p", "title": "", "text": text}],
        "spans": [{"passage_id": "p", "start": 0, "end": 21, "text": text[:21], "score": 1.0}],
    }


def write(path: Path, *rows: SilverRow) -> Path:
    path.write_text("\n".join(json.dumps(one) for one in rows), "utf-8")
    return path


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A part that has learnt from the bridges 1900 to 1904."""
    folder = tmp_path / "first"
    folder.mkdir()
    write_question_hashes(folder, [row(year) for year in range(1900, 1905)], {"ffff"})
    write_card(folder, ModelCard(role="filter", kind="span-encoder", base="minilm"))
    return folder


def test_marks_hold_no_question_and_come_back(base: Path) -> None:
    assert read_question_hashes(base) == {
        *(question_hash(row(year)) for year in range(1900, 1905)),
        "ffff",
    }
    assert "bridge" not in (base / QUESTIONS).read_text("utf-8")
    (base / QUESTIONS).write_text("{}", "utf-8")
    with pytest.raises(UsageError, match="is not a list of question hashes"):
        read_question_hashes(base)


def test_only_unseen_questions_are_held_out(tmp_path: Path, base: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", *(row(year) for year in range(1900, 1908)))
    for seed in range(6):
        settings = {"base": str(base), "held_out": 0.25, "seed": seed}
        plan = plan_training("filter", rows, tmp_path / "out", settings=settings)
        held = {one["id"] for one in plan.rows.held_out}
        assert len(held) == 2
        assert held < {"r1905", "r1906", "r1907"}


def judge_row(number: int) -> dict[str, object]:
    """Return a judge's row on the question of `row(number)`."""
    question = row(number)["question"]
    return {"id": f"r{number}", "question": question, "draft": "1900", "known": number % 2 == 0}


@pytest.mark.parametrize(("role", "kind"), [("judge", "linear"), ("filter", "causal-lora")])
def test_a_base_that_is_kept_by_its_path_has_seen_its_questions_too(
    role: PartRole, kind: str, tmp_path: Path, base: Path
) -> None:
    made = judge_row if role == "judge" else row
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(made(year)) for year in range(1900, 1910)), "utf-8")
    for seed in range(6):
        settings = {"base": str(base), "held_out": 0.2, "seed": seed}
        plan = plan_training(role, file, tmp_path / "out", kind=kind, settings=settings)
        assert plan.rows.held_out
        assert all(one["id"] >= "r1905" for one in plan.rows.held_out)
        assert plan.seen == read_question_hashes(base)
    with pytest.raises(UsageError, match="first: has learnt from 5 of the held-out questions"):
        other = tmp_path / "other.jsonl"
        other.write_text("\n".join(json.dumps(made(year)) for year in (1950, 1951)), "utf-8")
        settings = {"base": str(base)}
        plan_training(role, other, tmp_path / "o", kind=kind, held_out=file, settings=settings)


def test_a_merged_model_has_seen_its_parts_questions(tmp_path: Path) -> None:
    merged = tmp_path / "merged"
    merged.mkdir()
    (merged / "config.json").write_text("{}", "utf-8")
    write_question_hashes(merged, [row(1900)], [])
    rows = write(tmp_path / "rows.jsonl", row(1900), row(1901))
    settings = {"base": str(merged), "held_out": 0.5}
    plan = plan_training("filter", rows, tmp_path / "o", kind="causal-lora", settings=settings)
    assert [one["id"] for one in plan.rows.held_out] == ["r1901"]


def test_rows_that_the_base_has_all_seen_are_refused(tmp_path: Path, base: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", row(1900), row(1901))
    with pytest.raises(
        UsageError, match="the base part has learnt from too many of these questions"
    ):
        plan_training("filter", rows, tmp_path / "out", settings={"base": str(base)})
    settings = {"base": str(base), "held_out": 0}
    assert not plan_training("filter", rows, tmp_path / "o", settings=settings).rows.held_out


def test_held_out_files_are_compared_with_the_base(tmp_path: Path, base: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", row(1950), row(1951))
    held = write(tmp_path / "held.jsonl", row(1904), row(1960))
    with pytest.raises(UsageError, match=r"first: has learnt from 1 of .* \(row r1904\)"):
        plan_training("filter", rows, tmp_path / "out", held_out=held, settings={"base": str(base)})
    assert len(read_rows(held, "filter")) == 2
