"""Training questions: reading, and the nearest of them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.hash_embeddings import HashEmbeddings

from ragweave.errors import UsageError
from ragweave.tools.neighbours import TrainingIndex, read_training


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
        ("{", "line 1: Invalid JSON"),
        ("[]", "line 1: Input should be an object"),
        ('{"question": 1}', "line 1: question: Input should be a valid string"),
        ('\n{"question": "?", "needed": 1}', "line 2: needed: Input should be a valid boolean"),
    ],
)
def test_a_file_that_cannot_be_read(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=says):
        read_training(path)


def test_the_nearest_come_first() -> None:
    rows = [{"question": one, "needed": one == "a b"} for one in ("a", "a b", "c")]
    index = TrainingIndex(rows, HashEmbeddings())  # type: ignore[arg-type]
    found = index.nearest("a b", 2)
    assert [(one.question, one.needed) for one in found] == [("a b", True), ("a", False)]
    assert found[0].similarity == pytest.approx(1.0)
    assert index.share_needed == pytest.approx(1 / 3)
