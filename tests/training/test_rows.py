from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.trained import PartRole
from ragweave.training.rows import read_rows, silver_text

JUDGE = {"id": "1", "question": "Who?", "draft": "Ada.", "known": True}
SILVER = {
    "id": "1",
    "question": "Who?",
    "answers": ["Ada"],
    "passages": [{"id": "p", "title": "T", "text": "It was Ada. It rained."}],
    "spans": [{"passage_id": "p", "start": 0, "end": 11}],
}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("\n".join(json.dumps(row) for row in rows), "utf-8")
    return path


def test_judge_rows_keep_their_source(tmp_path: Path) -> None:
    row = {**JUDGE, "source": {"dataset": "x"}, "match_ratio": 1.0, "stray": 3}
    (read,) = read_rows(write(tmp_path / "a.jsonl", row), "judge")
    assert read == {**JUDGE, "source": {"dataset": "x"}, "match_ratio": 1.0}


def test_gzipped_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(JUDGE).encode()))
    assert read_rows(path, "judge")[0]["id"] == "1"


def test_silver_rows_take_their_text_from_the_passage(tmp_path: Path) -> None:
    row = {**SILVER, "spans": [{**SILVER["spans"][0], "text": "forged"}]}  # type: ignore[index]
    (read,) = read_rows(write(tmp_path / "a.jsonl", row), "filter")
    assert silver_text(read) == "It was Ada."  # type: ignore[arg-type]


def test_an_empty_target_is_a_target(tmp_path: Path) -> None:
    (read,) = read_rows(write(tmp_path / "a.jsonl", {**SILVER, "spans": []}), "generator")
    assert silver_text(read) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("role", "row", "said"),
    [
        ("judge", {**JUDGE, "known": "yes"}, "'known' must be true or false"),
        ("judge", {**JUDGE, "question": " "}, "'question' is empty"),
        ("judge", {**JUDGE, "draft": None}, "'draft' must be a string"),
        ("rewriter", JUDGE, "the field 'target' is missing"),
        ("filter", {**SILVER, "answers": []}, "the gold answer is missing"),
        ("generator", {**SILVER, "answers": [""]}, "the gold answer is missing"),
        ("filter", {**SILVER, "spans": [{"passage_id": "x", "start": 0, "end": 1}]}, "'x'"),
        ("filter", {**SILVER, "spans": [{"passage_id": "p", "start": 5, "end": 99}]}, "5 to 99"),
        ("filter", {**SILVER, "passages": SILVER["passages"] * 2}, "two passages have the same id"),  # type: ignore[operator]
    ],
)
def test_bad_rows_are_named(tmp_path: Path, role: PartRole, row: Any, said: str) -> None:
    good = SILVER if role in ("filter", "generator") else {**JUDGE, "target": "t"}
    path = write(tmp_path / "a.jsonl", good, row)
    with pytest.raises(UsageError) as caught:
        read_rows(path, role)
    assert said in str(caught.value)
    assert f"{path}:2" in str(caught.value)


def test_missing_and_empty_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_rows(tmp_path / "none.jsonl", "judge")
    (tmp_path / "e.jsonl").write_text("", "utf-8")
    with pytest.raises(UsageError, match=r"e\.jsonl"):
        read_rows(tmp_path / "e.jsonl", "judge")
