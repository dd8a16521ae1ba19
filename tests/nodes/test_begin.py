"""The first node: checks the question and clears what an earlier turn left."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.scripted import documents

from ragweave.errors import UsageError
from ragweave.nodes.begin import begin
from ragweave.nodes.options import Options
from ragweave.state import no_usage, ranked, take_passages
from ragweave.state.passages import INPUT


@pytest.mark.parametrize("question", ["", "  \n\t", None, 5])
def test_an_empty_question(question: Any) -> None:
    with pytest.raises(UsageError, match="the question is empty"):
        begin({"question": question}, Options())


def test_a_missing_question() -> None:
    with pytest.raises(UsageError, match="the question is empty"):
        begin({}, Options())


def test_an_unknown_answer_type() -> None:
    with pytest.raises(UsageError, match="answer_type must be one of"):
        begin({"question": "q", "answer_type": "poem"}, Options())


def test_the_inputs_answer_type_goes_before_the_option() -> None:
    options = Options(answer_type="long")
    assert begin({"question": "q"}, options)["resolved_answer_type"] == "long"
    assert (
        begin({"question": "q", "answer_type": "yes_no"}, options)["resolved_answer_type"]
        == "yes_no"
    )


def test_the_question_is_the_first_query() -> None:
    update = begin({"question": "  Where? \n"}, Options())
    assert update["question"] == "Where?"
    assert update["queries"] == {"question": "Where?"}


def test_half_a_surrogate_is_no_part_of_a_question() -> None:
    update = begin({"question": " Who\ud83d? "}, Options())
    assert update["question"] == update["queries"]["question"] == "Who??"


def test_only_passages_of_this_input_count() -> None:
    given = take_passages(None, documents("new"))
    stale = ranked(documents("old"), "question")
    update = begin({"question": "q", "passages": [*stale, *given]}, Options())
    taken = update["passages"].value
    assert [doc.page_content for doc in taken] == ["new"]
    assert taken[0].metadata["query"] == INPUT


def test_the_last_turn_is_cleared() -> None:
    update = begin({"question": "q", "usage": {"calls": 9}, "candidates": {"x": {}}}, Options())
    assert update["usage"].value == no_usage()
    for key in ("candidates", "retrieved", "kept"):
        assert update[key].value == {}
    assert update["notes"].value == []
    assert (update["answer"], update["status"], update["known"]) == ("", "unknown", None)


def test_a_deadline_only_where_a_timeout_is_set() -> None:
    assert "deadline" not in begin({"question": "q"}, Options())
    before = time.time()
    assert begin({"question": "q"}, Options(timeout=60))["deadline"] >= before + 60
