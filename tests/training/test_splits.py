from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.training.rows import JudgeRow, check_apart, question_key, split_rows


def row(number: int, question: str) -> JudgeRow:
    return {"id": str(number), "question": question, "draft": "d", "known": bool(number % 2)}


@given(
    st.lists(st.integers(0, 12), min_size=2, max_size=40).filter(lambda one: len(set(one)) > 1),
    st.floats(0.01, 0.99),
    st.integers(0, 5),
)
def test_no_question_stands_on_both_sides(names: list[int], share: float, seed: int) -> None:
    rows = [row(index, f"Who is the {name}?") for index, name in enumerate(names)]
    train, held_out = split_rows(rows, share, seed)
    assert train
    assert held_out
    assert sorted(int(one["id"]) for one in [*train, *held_out]) == list(range(len(rows)))
    assert not {question_key(one) for one in train} & {question_key(one) for one in held_out}
    check_apart(train, held_out)
    assert split_rows(rows, share, seed) == (train, held_out)


def test_case_and_articles_make_no_other_question() -> None:
    with pytest.raises(UsageError, match=r"held-out row 2, training row 1"):
        check_apart([row(1, "Who is the king?")], [row(2, "who is king")])


def test_many_shared_questions_are_counted() -> None:
    rows = [row(index, f"question {index}") for index in range(9)]
    with pytest.raises(UsageError, match=r"^9 held-out questions .* and 4 more$"):
        check_apart(rows, rows)


def test_shares_out_of_range_and_single_questions() -> None:
    with pytest.raises(UsageError, match="held_out"):
        split_rows([row(1, "a"), row(2, "b")], 1.0, 0)
    with pytest.raises(UsageError, match="one question alone"):
        split_rows([row(1, "a"), row(2, "A")], 0.1, 0)
    assert split_rows([row(1, "a")], 0, 0).held_out == []
