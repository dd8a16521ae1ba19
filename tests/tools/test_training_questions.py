"""Training files: read, labelled, written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.tools.neighbours import label_training, read_training, write_training

SHARED = Path(__file__).parents[3] / "shared/data/slimplm"


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_read(tmp_path: Path) -> None:
    rows = [{"question": "who?", "needed": True}, {"question": "où ?", "needed": False}]
    path = write(tmp_path / "t.jsonl", {**rows[0], "id": 7}, rows[1])
    assert read_training(path) == rows
    zipped = tmp_path / "t.jsonl.gz"
    zipped.write_bytes(gzip.compress(b"\xef\xbb\xbf\n" + path.read_bytes()))
    assert read_training(zipped) == rows


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no training questions"),
        ("\n \n", "no training questions"),
        ('{"question": "who?", "needed": true}\nnope', "line 2: is not valid JSON"),
        ("[1]", "line 1: must be a JSON object, not list"),
        ('{"needed": true}', "line 1: 'question' must be a string, not None"),
        ('{"question": " ", "needed": true}', "line 1: 'question' must be a string"),
        ('{"question": "who?"}', "line 1: 'needed' must be true or false, not None"),
        ('{"question": "who?", "needed": 1}', "line 1: 'needed' must be true or false, not 1"),
    ],
)
def test_faults_name_the_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=says) as caught:
        read_training(path)
    assert "bad.jsonl" in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be read .FileNotFoundError"):
        read_training(tmp_path / "none.jsonl")
    (tmp_path / "bad.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(UsageError, match=r"cannot be read .BadGzipFile"):
        read_training(tmp_path / "bad.jsonl.gz")
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"cannot be read .UnicodeDecodeError"):
        read_training(tmp_path / "latin.jsonl")


def test_labels_from_needed_known_or_answers() -> None:
    assert list(label_training([{"question": "a", "needed": True}])) == [
        {"question": "a", "needed": True}
    ]
    assert [one["needed"] for one in label_training([{"question": "a", "known": True}])] == [False]
    rows = [
        {"question": "a", "draft": "It is Paris.", "answers": ["Paris"]},
        {"question": "b", "draft": "It is Rome.", "answers": "Paris"},
        {"question": "c", "draft": "", "answers": ["Paris"]},
        {"question": "d", "draft": "Paris", "answers": ["Paris", "Rome"]},
    ]
    needed = [one["needed"] for one in label_training(rows, draft="draft")]
    assert needed == [False, True, True, False]
    apart = list(label_training(rows, draft="draft", aliases="apart"))
    assert [one["needed"] for one in apart] == [False, True, True, True]
    lenient = list(label_training(rows, draft="draft", aliases="apart", theta=0.4))
    assert [one["needed"] for one in lenient] == [False, True, True, False]
    with pytest.raises(UsageError, match="--aliases must be one of auto, together, apart"):
        list(label_training(rows, draft="draft", aliases="some"))


def test_a_draft_is_not_compared_with_yes_or_no(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"question": "Is it old?", "draft": "I do not know.", "answers": ["no"]},
        {"question": "Is it new?", "draft": "Yes.", "answers": [["Yes"]]},
        {"question": "Who made it?", "draft": "I do not know.", "answers": ["Ada"]},
    ]
    source = write(tmp_path / "q.jsonl", *rows)
    done = write_training(source, tmp_path / "t.jsonl", draft="draft")
    assert (done.questions, done.needed, done.dropped) == (1, 1, 2)
    assert read_training(done.path) == [{"question": "Who made it?", "needed": True}]
    with pytest.raises(UsageError, match="answered by yes or no"):
        write_training(write(tmp_path / "y.jsonl", rows[0]), tmp_path / "u.jsonl", draft="draft")
    labelled = [{"question": "Is it old?", "needed": False, "answers": ["no"]}]
    assert [one["needed"] for one in label_training(labelled)] == [False]


@pytest.mark.parametrize(
    ("row", "draft", "says"),
    [
        ({"question": "a"}, None, "row 2: has neither 'needed' nor 'known'"),
        ({"known": True}, None, "row 2: 'question' must be a string"),
        ({"question": "a", "known": "yes"}, None, "row 2: 'known' must be true or false"),
        ({"question": "a", "reply": "x"}, "reply", "row 2: no gold answers in 'answers'"),
        ({"question": "a", "answers": ["x"]}, "reply", "row 2: 'reply' must be a string"),
        ({"question": "a", "reply": "x", "answers": []}, "reply", "row 2: no gold answers"),
        ({"question": "a", "reply": "x", "answers": [None]}, "reply", "row 2: no gold answers"),
        *(
            (
                {"question": "a", "reply": "x", "answers": answers},
                "reply",
                "row 2: 'answers': a gold answer must be a string or a number, not ",
            )
            for answers in ({"x": 1}, True, [True], [[["x"]]], [{"a": 1}])
        ),
    ],
)
def test_rows_without_a_label(row: Any, draft: str | None, says: str) -> None:
    good = {"question": "a", "known": True, "reply": "x", "answers": ["x"]}
    with pytest.raises(UsageError, match=says):
        list(label_training([good, row], draft=draft))


def test_nulls_among_the_answers_are_left_out() -> None:
    row = {"question": "a", "reply": "x", "answers": [["x", None]]}
    assert list(label_training([row], draft="reply")) == list(
        label_training([{**row, "answers": [["x"]]}], draft="reply")
    )


def test_numbers_are_answers_as_they_are_written() -> None:
    rows: list[dict[str, Any]] = [
        {"question": "a", "draft": "In 1999.", "answers": [1999]},
        {"question": "b", "draft": "In 1998.", "answers": 1999},
        {"question": "c", "draft": "It is 3", "answers": [["a lot", 3]]},
        {"question": "d", "draft": "It is 2.5 metres", "answers": [2.5]},
    ]
    needed = [one["needed"] for one in label_training(rows, draft="draft")]
    assert needed == [False, True, False, False]


@pytest.mark.parametrize("theta", ["0.5", None, True, float("nan"), 2, -0.1])
def test_a_share_that_is_none(theta: Any) -> None:
    with pytest.raises(UsageError, match="theta must be a number between 0 and 1, not "):
        list(label_training([{"question": "a", "known": True}], theta=theta))


def test_write_and_read_again(tmp_path: Path) -> None:
    source = write(
        tmp_path / "s.jsonl", {"question": "où?", "known": True}, {"question": "b", "known": False}
    )
    done = write_training(source, tmp_path / "t.jsonl")
    assert (done.questions, done.needed) == (2, 1)
    assert read_training(done.path) == [
        {"question": "où?", "needed": False},
        {"question": "b", "needed": True},
    ]


def test_no_file_is_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "s.jsonl", {"question": "a", "known": True, "draft": "It is Paris."})
    before = source.read_bytes()
    for target in (source, write(tmp_path / "t.jsonl", {"question": "b", "needed": True})):
        with pytest.raises(UsageError, match="already exists; name another --out, or delete it"):
            write_training(source, target)
    assert source.read_bytes() == before
    assert read_training(tmp_path / "t.jsonl") == [{"question": "b", "needed": True}]


def test_a_packed_file_is_packed(tmp_path: Path) -> None:
    source = write(tmp_path / "s.jsonl", {"question": "où?", "known": True})
    done = write_training(source, tmp_path / "t.jsonl.gz")
    assert gzip.decompress(done.path.read_bytes()).startswith(b"{")
    assert read_training(done.path) == [{"question": "où?", "needed": False}]


def test_nothing_is_written_before_every_row_is_labelled(tmp_path: Path) -> None:
    source = write(tmp_path / "s.jsonl", {"question": "a", "known": True}, {"question": "b"})
    with pytest.raises(UsageError, match=r"s\.jsonl: row 2: has neither"):
        write_training(source, tmp_path / "t.jsonl")
    assert not (tmp_path / "t.jsonl").exists()
    with pytest.raises(UsageError, match="contains no questions"):
        write_training(write(tmp_path / "empty.jsonl"), tmp_path / "t.jsonl")


@given(st.lists(st.tuples(st.text(min_size=1).filter(str.strip), st.booleans()), min_size=1))
def test_what_is_written_is_read_back(rows: list[tuple[str, bool]]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        source = write(
            Path(folder) / "s.jsonl", *[{"question": text, "known": known} for text, known in rows]
        )
        done = write_training(source, Path(folder) / "t.jsonl")
        assert [(one["question"], not one["needed"]) for one in read_training(done.path)] == rows


def test_the_released_judge_data_becomes_a_training_file(tmp_path: Path) -> None:
    source = SHARED / "judge-llama7b-dev.jsonl.gz"
    if not source.exists():
        pytest.skip(f"{source} is not there")
    done = write_training(source, tmp_path / "t.jsonl")
    assert (done.questions, done.needed) == (400, 200)
