"""Questions of one's own, in JSON lines, CSV and TSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.files import write_lines

from ragweave.datasets import open_dataset
from ragweave.datasets.plain import plain
from ragweave.datasets.rows import Row
from ragweave.errors import UsageError


def test_csv_with_named_fields(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text('key,ask,gold\n1,"Who, then?",Ada|A. L.\n2,Where?,Varn\n', "utf-8")
    dataset = open_dataset(f"csv:{path}?question=ask&answers=gold&id=key")
    assert [(q.id, q.question, q.answers) for q in dataset] == [
        ("1", "Who, then?", ("Ada", "A. L.")),
        ("2", "Where?", ("Varn",)),
    ]


@pytest.mark.parametrize(
    ("cell", "answers"),
    [
        ('["a|b", "c", null]', ("a|b", "c")),
        ("['a|b', 'c', None]", ("a|b", "c")),
        ("[1932]", ("[1932]",)),
        ("[0, 1]", ("[0, 1]",)),
        ("[1.50]|[1e3]", ("[1.50]", "[1e3]")),
        ("[Infinity]", ("[Infinity]",)),
        ("[true]", ("[true]",)),
        ("[null]", ("[null]",)),
        ("[]", ("[]",)),
        ("[[1,2],[3,4]]", ("[[1,2],[3,4]]",)),
        ('["a", 1]', ('["a", 1]',)),
        ('["a"]|["b"]', ('["a"]', '["b"]')),
        ('["x"] and ["y"]', ('["x"] and ["y"]',)),
        ("[sic]|so", ("[sic]", "so")),
        ("a | b", ("a", "b")),
    ],
)
def test_a_cell_holds_texts_with_bars_or_a_list(
    cell: str, answers: tuple[str, ...], tmp_path: Path
) -> None:
    quoted = cell.replace('"', '""')
    path = tmp_path / "mine.csv"
    path.write_text(f'question,answers\nq,"{quoted}"\n', "utf-8")
    (one,) = open_dataset(str(path))
    assert one.answers == answers


def test_a_cell_is_no_list_where_a_separator_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("question,answers\nq,['a'; 'b']\nr,['a']\n", "utf-8")
    read = [one.answers for one in open_dataset(f"csv:{path}?separator=;")]
    assert read == [("['a'", "'b']"), ("['a']",)]


@given(answers=st.lists(st.text(min_size=1).filter(str.strip), min_size=1), form=st.booleans())
def test_a_list_in_a_cell_is_read_as_it_was_written(answers: list[str], form: bool) -> None:
    cell = json.dumps(answers) if form else repr(answers)
    row = Row({"question": "q", "answers": cell}, "mine.csv:2", 1, cells=True)
    (one,) = plain("csv", {}).read(row)
    assert one.answers == tuple(dict.fromkeys(text.strip() for text in answers))


@given(text=st.text(st.sampled_from("[]{}'\"\\,:1dN-( ") | st.characters(codec="utf-8")))
def test_whatever_a_cell_holds_is_read_or_refused_in_a_line(text: str) -> None:
    row = Row({"question": "q", "answers": f"[{text}"}, "mine.csv:2", 1, cells=True)
    try:
        (one,) = plain("csv", {}).read(row)
    except UsageError as error:
        assert str(error).startswith("mine.csv:2: ")
    else:
        assert all(one.answers)


def test_a_json_text_is_one_answer_unless_a_separator_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "mine.jsonl", {"question": "q", "answer": "P(A|B)"})
    assert [one.answers for one in open_dataset(f"jsonl:{path}")] == [("P(A|B)",)]
    named = open_dataset(f"jsonl:{path}?separator=|")
    assert [one.answers for one in named] == [("P(A", "B)")]


@pytest.mark.parametrize(
    ("answer", "gold"),
    [(True, "Yes"), ([False], "No"), ("TRUE", "Yes"), ("false", "No"), ("Yes", "Yes")],
)
def test_true_is_yes_where_yes_or_no_is_asked_for(answer: Any, gold: str, tmp_path: Path) -> None:
    row = {"question": "q", "answer": answer, "answer_type": "yes_no"}
    (one,) = open_dataset(f"jsonl:{write_lines(tmp_path / 'mine.jsonl', row)}")
    assert one.answers == (gold,)


def test_json_lines_with_passages_and_answer_type(tmp_path: Path) -> None:
    row = {
        "question": "Is it?",
        "answer": "Yes",
        "answer_type": "yes_no",
        "passages": ["plain", {"title": "T", "text": "told", "gold": True}],
    }
    (one,) = open_dataset(f"jsonl:{write_lines(tmp_path / 'mine.jsonl', row)}")
    assert one.scoring == "accuracy"
    assert [doc.metadata["gold"] for doc in one.passages] == [False, True]
