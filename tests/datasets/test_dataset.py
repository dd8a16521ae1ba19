"""Reading row by row, samples, and hashes."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from tests.evaluation.files import write_json, write_lines

from ragweave.datasets import Question, open_dataset
from ragweave.datasets.dataset import FORMATS
from ragweave.datasets.plain import plain
from ragweave.datasets.question import Format, each_once
from ragweave.errors import UsageError

TEXT = st.text(min_size=1).filter(lambda text: bool(text.strip()))


@given(
    rows=st.lists(st.tuples(TEXT, st.lists(TEXT, min_size=1, max_size=3)), min_size=1, max_size=8),
    array=st.booleans(),
    indent=st.sampled_from([None, 2]),
)
def test_what_was_written_is_read(
    rows: list[tuple[str, list[str]]], array: bool, indent: int | None
) -> None:
    listed = [{"question": question, "answers": answers} for question, answers in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.json"
        if array:
            path.write_text(json.dumps(listed, indent=indent), "utf-8")
        else:
            write_lines(path, *listed)
        found = [(q.question, q.answers) for q in open_dataset(f"json:{path}")]
    assert found == [
        (question.strip(), tuple(dict.fromkeys(one.strip() for one in answers)))
        for question, answers in rows
    ]


def test_an_array_larger_than_a_chunk_is_read_piece_by_piece(tmp_path: Path) -> None:
    rows = [{"question": f"q{index}", "answers": ["x" * 2000]} for index in range(6000)]
    path = write_json(tmp_path / "big.json", rows)
    assert path.stat().st_size > 12_000_000
    dataset = open_dataset(f"json:{path}")
    tracemalloc.start()
    try:
        numbers = [q.question for q in dataset]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert numbers == [f"q{index}" for index in range(6000)]
    assert peak < 8_000_000


def test_rows_behind_the_one_asked_for_are_not_read(tmp_path: Path) -> None:
    good = json.dumps({"question": "q", "answers": ["x"]})
    path = tmp_path / "m.jsonl"
    path.write_text(f"{good}\n{good}\nnot json\n", "utf-8")
    assert len(list(islice(open_dataset(f"jsonl:{path}"), 2))) == 2


def test_a_sample_is_the_same_for_a_seed_and_never_larger_than_the_file(tmp_path: Path) -> None:
    rows = [{"question": f"q{index}", "answers": ["x"]} for index in range(50)]
    dataset = open_dataset(f"jsonl:{write_lines(tmp_path / 'm.jsonl', *rows)}")
    assert dataset.sample(10, seed=1) == dataset.sample(10, seed=1)
    assert dataset.sample(10, seed=1) != dataset.sample(10, seed=2)
    assert dataset.sample(90, seed=1) == frozenset(range(50))


def test_the_hash_follows_the_content(tmp_path: Path) -> None:
    rows = [{"question": "q", "answers": ["x"]}]
    one = open_dataset(f"jsonl:{write_lines(tmp_path / 'a.jsonl', *rows)}")
    same = open_dataset(f"jsonl:{write_lines(tmp_path / 'b.jsonl', *rows)}")
    other = open_dataset(f"jsonl:{write_lines(tmp_path / 'c.jsonl', *rows, *rows)}")
    assert one.hash == same.hash != other.hash


def test_passages_of_plain_rows_are_read_without_naming_the_format(tmp_path: Path) -> None:
    row = {"question": "Who?", "answers": ["Ada"], "passages": ["It was Ada."]}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    (question,) = open_dataset(str(tmp_path / "mine.jsonl"))
    assert [doc.page_content for doc in question.passages] == ["It was Ada."]


def test_passages_are_read_though_the_first_row_has_none(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "answers": ["Ada"], "passages": given}
        for given in ([], ["It was Ada."])
    ]
    first, second = open_dataset(str(write_lines(tmp_path / "mine.jsonl", *rows)))
    assert not first.passages
    assert [doc.page_content for doc in second.passages] == ["It was Ada."]


@pytest.mark.parametrize("first", [{}, {"passages": None}, {"passages": []}])
def test_the_first_row_need_not_have_the_passages_of_the_others(
    first: dict[str, Any], tmp_path: Path
) -> None:
    told = {"passages": ["It was Ada."]}
    rows = [{"question": "Who?", "answers": ["Ada"], **more} for more in (first, first, told)]
    dataset = open_dataset(str(write_lines(tmp_path / "mine.jsonl", *rows)))
    assert (dataset.name, dataset.form.name) == ("jsonl", "jsonl")
    assert [len(one.passages) for one in dataset] == [0, 0, 1]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ({"answer_type": ""}, {"answer_type": "entity"}),
        ({"answer_type": None}, {"answer_type": "entity"}),
        ({"passages": None}, {"passages": {"passage_text": ["It was Ada."]}}),
        ({"passages": {"passage_text": ["It was Ada."]}}, {"passages": None}),
    ],
)
def test_fields_of_nq_rows_that_are_called_as_those_of_plain_rows_are_ignored(
    first: dict[str, Any], other: dict[str, Any], tmp_path: Path
) -> None:
    rows = [{"question": "Who?", "answer": ["Ada"], **more} for more in (first, other)]
    dataset = open_dataset(str(write_lines(tmp_path / "mine.jsonl", *rows)))
    assert dataset.name == "nq_open"
    assert [one.answers for one in dataset] == [("Ada",), ("Ada",)]


def test_plain_rows_without_passages_are_nq_open(tmp_path: Path) -> None:
    row = {"question": "Who?", "answer": ["Ada"]}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row) + "\n", "utf-8")
    assert open_dataset(str(tmp_path / "mine.jsonl")).name == "nq_open"


def test_plain_rows_that_a_packages_format_fits_too_must_be_named(tmp_path: Path) -> None:
    riddles = Format(
        name="riddles",
        expects="question, answer",
        fits=lambda fields: "question" in fields,
        read=plain("jsonl", {}).read,
    )
    row = {"question": "Who?", "answers": ["Ada"], "passages": ["It was Ada."]}
    mine = write_lines(tmp_path / "mine.jsonl", row)
    other = write_lines(tmp_path / "other.jsonl", {"question": "Who?", "said": "Ada"})
    FORMATS.register(riddles)
    try:
        with pytest.raises(
            UsageError, match=r"name it jsonl:.*mine\.jsonl or riddles:.*mine\.jsonl"
        ):
            open_dataset(str(mine))
        assert open_dataset(f"jsonl:{mine}").form.name == "jsonl"
        assert open_dataset(f"riddles:{mine}").form.name == "riddles"
        assert open_dataset(str(other)).form.name == "riddles"
    finally:
        FORMATS.unregister("riddles")


def test_passages_that_are_not_marked_are_not_gold() -> None:
    plain, gold = Document("One."), Document("Two.", metadata={"gold": True})
    asked = Question(id="1", question="Where?", answers=(), passages=(plain, gold))
    assert asked.gold == (gold,)
    again = Document("Two.")
    assert [doc.page_content for doc in each_once([plain, again, gold, plain])] == ["One.", "Two."]
    assert Question(id="1", question="", answers=(), passages=each_once([again, gold])).gold
