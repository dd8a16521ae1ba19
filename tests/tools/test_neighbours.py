"""Training questions: reading, labelling, and the nearest of them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from tests.hash_embeddings import HashEmbeddings

from ragweave.errors import UsageError
from ragweave.tools.labels import known_label, match_ratio
from ragweave.tools.neighbours import TrainingIndex, label_training, read_training


def test_a_file_is_read_packed_or_not(tmp_path: Path) -> None:
    text = '{"question": "who?", "needed": true, "more": 1}\n\n'
    (tmp_path / "a.jsonl").write_text(text, "utf-8")
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    assert read_training(tmp_path / "a.jsonl") == read_training(tmp_path / "a.jsonl.gz")
    assert read_training(tmp_path / "a.jsonl") == [{"question": "who?", "needed": True}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "contains no training questions"),
        ("{", r"line 1: is not valid JSON"),
        ("[]", "line 1: must be a JSON object, not list"),
        ('{"question": 1}', "line 1: 'question' must be a string, not 1"),
        ('\n{"question": "?", "needed": 1}', "line 2: 'needed' must be true or false, not 1"),
    ],
)
def test_a_file_that_cannot_be_read(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=says):
        read_training(path)


@pytest.mark.parametrize(
    ("row", "options", "needed"),
    [
        ({"needed": True}, {}, True),
        ({"known": True}, {}, False),
        ({"a": "It is Paris.", "answers": ["Paris"]}, {"draft": "a"}, False),
        ({"a": "No idea.", "answers": ["Paris"]}, {"draft": "a"}, True),
        ({"a": "No idea.", "answers": ["no"]}, {"draft": "a"}, None),
        ({"a": "No idea.", "b": "Paris", "answers": ["Paris"]}, {"draft": "a", "retrieved": "b"}, True),
        ({"a": "Paris", "b": "Rome", "answers": ["Paris"]}, {"draft": "a", "retrieved": "b"}, False),
        ({"a": "Paris", "b": "Paris", "answers": ["Paris"]}, {"draft": "a", "retrieved": "b"}, None),
    ],
)
def test_labels(row: dict[str, Any], options: dict[str, Any], needed: bool | None) -> None:
    labelled = [one["needed"] for one in label_training([{"question": "?", **row}], **options)]
    assert labelled == ([] if needed is None else [needed])


def test_a_row_without_a_label_is_named() -> None:
    with pytest.raises(UsageError, match="row 2: 'needed' must be true or false"):
        list(label_training([{"question": "?", "needed": True}, {"question": "?"}]))
    with pytest.raises(UsageError, match="row 1: no gold answers in 'gold'"):
        list(label_training([{"question": "?", "a": "x"}], draft="a", gold="gold"))


def test_the_match_ratio_counts_answers_or_names() -> None:
    assert match_ratio("The Nile, a river", ["Nile", "the Blue Nile"]) == 1.0
    assert match_ratio("The Nile, a river", ["Nile", "the Blue Nile"], apart=True) == 0.5
    assert match_ratio("in 1931 by Ada", [[1931], ["Ada", "Brenner"], ["Karl"]]) == pytest.approx(2 / 3)
    assert not known_label("Nile", [["Nile"], ["Rhine"]])
    assert known_label("Nile", [["Nile"], ["Rhine"]], theta=0.4)


def test_the_nearest_come_first() -> None:
    rows = [{"question": one, "needed": one == "a b"} for one in ("a", "a b", "c")]
    index = TrainingIndex(rows, HashEmbeddings())  # type: ignore[arg-type]
    found = index.nearest("a b", 2)
    assert [(one.question, one.needed) for one in found] == [("a b", True), ("a", False)]
    assert found[0].similarity == pytest.approx(1.0)
    assert index.share_needed == pytest.approx(1 / 3)
