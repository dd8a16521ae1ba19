"""What is wrong with a data set is said in one line: where, what was found, what was expected."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.evaluation.files import write_json, write_lines

from ragweave.datasets import DATASETS, open_dataset
from ragweave.errors import UsageError

GOOD = {"question": "q", "answers": ["x"]}


def error_of(spec: str) -> str:
    with pytest.raises(UsageError) as caught:
        list(open_dataset(spec))
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_the_drive_of_a_windows_path_is_no_data_set() -> None:
    assert error_of(r"C:\nowhere\qa.jsonl") == r"C:\nowhere\qa.jsonl: there is no such file"


def test_unknown_name_lists_the_names() -> None:
    told = error_of("hotpot:dev.json")
    assert f"unknown data set 'hotpot'; name one of {', '.join(DATASETS)}, jsonl, " in told
    assert {"nq", "triviaqa", "hotpotqa", "beir"} <= set(DATASETS)


def test_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in error_of(f"nq:{tmp_path / 'no.json'}")


def test_unknown_fields_are_named_with_what_was_expected(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "odd.jsonl", {"prompt": "q", "gold": "x"})
    text = error_of(f"hotpotqa:{path}")
    assert f"{path}:1: found the fields prompt, gold; expected for hotpotqa _id, question" in text


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"question": "", "answers": ["x"]}, "'question' is empty"),
        ({"question": "q"}, "the field 'answers' or 'answer' is missing; found: question"),
        ({"question": "q", "answers": []}, "the gold answer is missing: 'answers' is empty"),
        ({"question": "q", "answers": 3}, "'answers' must be a list of strings, not int"),
        (
            {"question": "q", "answers": [["Paris", "Lutetia"]]},
            "'answers' must hold strings or numbers alone, not a list",
        ),
        (
            {"question": "q", "answer": ["x", True]},
            "'answer' must hold strings or numbers alone, not a bool",
        ),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(bad: object, said: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", GOOD, bad)
    assert error_of(f"jsonl:{path}") == f"{path}:2: {said}"


def test_broken_json_on_a_line(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", GOOD)
    path.write_text(path.read_text("utf-8") + '{"question": "q", \n', "utf-8")
    assert f"{path}:2: is not valid JSON" in error_of(f"jsonl:{path}")


def test_a_json_array_cut_short_names_the_record(tmp_path: Path) -> None:
    path = write_json(tmp_path / "mine.json", [GOOD, GOOD])
    path.write_text(path.read_text("utf-8")[:-10], "utf-8")
    assert f"{path}, record 2: is not valid JSON" in error_of(f"json:{path}")


def test_duplicate_ids(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.jsonl", {**GOOD, "id": "a"}, GOOD, {**GOOD, "id": "a"})
    assert error_of(f"jsonl:{path}") == f"{path}:3: the id 'a' appears twice"


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "none.jsonl"
    path.touch()
    assert "expected JSON lines, a JSON array or object, found nothing" in error_of(f"nq:{path}")


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "cut.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"question": "q", "answers": ["x"]}\n' * 500)[:-20])
    assert "cannot be read" in error_of(f"jsonl:{path}")


def test_no_text_at_all(tmp_path: Path) -> None:
    path = tmp_path / "bytes.jsonl"
    path.write_bytes(b"{\xff\xfe")
    assert "is not UTF-8 text" in error_of(f"jsonl:{path}")


def test_a_csv_row_with_too_many_columns(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answers\nq,x\nq,x,y\n", "utf-8")
    assert error_of(f"csv:{path}") == f"{path}:3: does not have the 2 columns of the header"


def test_an_unknown_field_name_in_the_spec(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.jsonl", GOOD)
    assert "unknown field name 'ask'" in error_of(f"jsonl:{path}?ask=q")


@pytest.mark.parametrize("key", ["id", "passages", "answer_type"])
def test_a_field_that_the_spec_names_must_be_in_some_row(key: str, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "m.jsonl", GOOD, {**GOOD, "docs": None})
    said = (
        "no row up to here has the field 'doc' ({key}=… names it); found: question, answers, docs"
    )
    assert error_of(f"jsonl:{path}?{key}=doc") == f"{path}:2: {said.format(key=key)}"
    open_dataset(f"jsonl:{path}?{key}=docs")


def test_an_empty_separator(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answers\nq,x\n", "utf-8")
    assert error_of(f"csv:{path}?separator=").startswith("csv: separator is empty; name what")


def test_a_cell_that_only_looks_like_a_list(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answers\nq,['x' 'y']\n", "utf-8")
    assert error_of(f"csv:{path}").startswith(f"{path}:2: \"['x' 'y']\" looks like a list but is")
