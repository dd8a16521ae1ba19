"""Labelled rows: reading, splitting, sentences."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.training.labels import filter_row, judge_row, router_row, write_rows

from ragweave.errors import UsageError
from ragweave.training.rows import FilterRow, check_disjoint, read_rows, sentences_of, split_rows


def test_rows_are_read_with_what_training_needs_of_them(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    with gzip.open(path, "wt") as file:
        file.write(json.dumps({**judge_row(1), "id": 7, "match_ratio": 0.2}) + "\n\n")
    (row,) = read_rows(path, "judge")
    assert (row.id, row.question) == ("7", "What is the capital 1?")


@pytest.mark.parametrize(
    ("role", "change", "message"),
    [
        ("judge", {"known": "perhaps"}, "rows.jsonl:2: known: "),
        ("filter", {"answers": []}, "answers"),
        ("filter", {"spans": [{"passage_id": "p", "start": 5, "end": 999}]}, "5 to 999 is not a span"),
        ("filter", {"spans": [{"passage_id": "q", "start": 0, "end": 2}]}, "is not a span of a passage 'q'"),
        ("router", {"right": {"none": True}}, "right"),
    ],
)
def test_a_bad_row_is_named_with_its_line(tmp_path: Path, role: Any, change: dict[str, Any], message: str) -> None:
    make = {"judge": judge_row, "filter": filter_row, "router": router_row}[role]
    path = write_rows(tmp_path / "rows.jsonl", [make(0), {**make(1), **change}])
    with pytest.raises(UsageError, match=message):
        read_rows(path, role)


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_rows(tmp_path / "none.jsonl", "judge")
    with pytest.raises(UsageError, match="has no rows"):
        read_rows(write_rows(tmp_path / "rows.jsonl", []), "judge")


def test_a_question_is_on_the_same_side_in_every_file(tmp_path: Path) -> None:
    rows = read_rows(write_rows(tmp_path / "all.jsonl", map(judge_row, range(200))), "judge")
    train, held_out = split_rows(rows, 0.2)
    assert 20 < len(held_out) < 60
    assert len(train) + len(held_out) == 200
    assert split_rows(rows[100:], 0.2)[1] == [row for row in held_out if row in rows[100:]]
    with pytest.raises(UsageError, match="1 held-out questions are in the training rows too"):
        check_disjoint(train, [*held_out, train[0]])


def test_sentences_are_kept_where_half_of_them_is_covered() -> None:
    row = filter_row(0)
    read = FilterRow.model_validate(row)
    assert sentences_of(read)[1] == [False, True, False]
    row["spans"][0]["end"] -= 3
    assert sentences_of(FilterRow.model_validate(row))[1] == [False, True, False]
    row["spans"] = [{"passage_id": "p", "start": 0, "end": len(row["passages"][0]["text"])}]
    row["source"] = {"measure": "strinc", "unit": "passage"}
    silver = FilterRow.model_validate(row)
    assert silver.by_passage
    assert sentences_of(silver)[1] == [True]
