from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.extractive.evidence import Evidence, fill_gap
from ragweave.tools.extractive.question import analyse

ALIGNED = [
    ("Which lake feeds the mill?", "Lake Orrin feeds the old mill of Varn.", "Lake Orrin"),
    (
        "Which lake feeds the mill?",
        "In dry years, the Lake Orrin also feeds the mill.",
        "Lake Orrin",
    ),
    ("Who repairs clocks in Varn?", "A guild repairs the clocks in Varn.", "guild"),
    (
        "What does the guild repair?",
        "The guild repairs clocks, bells and organs; it owns a tower.",
        "clocks, bells and organs",
    ),
    ("What did Ada paint?", "Ada painted the bridge because it was red.", "the bridge"),
]
NOT_ALIGNED = [
    ("Which lake feeds the mill?", "The mill feeds the town."),
    ("Which lake feeds the mill?", "It feeds the mill."),
    ("What is the capital of Varn?", "Varn has a capital."),
    ("What does the guild repair?", "The clocks repair nothing by themselves."),
]


def evidence(text: str) -> Evidence:
    return Evidence(text, "", 0, 0, 1.0)


@pytest.mark.parametrize(("question", "sentence", "answer"), ALIGNED)
def test_the_gap_is_filled(question: str, sentence: str, answer: str) -> None:
    assert fill_gap(analyse(question), [evidence(sentence)]) == answer


@pytest.mark.parametrize(("question", "sentence"), NOT_ALIGNED)
def test_nothing_else_fills_it(question: str, sentence: str) -> None:
    assert fill_gap(analyse(question), [evidence(sentence)]) == ""


def test_a_later_sentence_counts_where_the_first_says_nothing_of_the_kind() -> None:
    found = [evidence("The mill is old."), evidence("Lake Orrin feeds the mill.")]
    assert fill_gap(analyse("Which lake feeds the mill?"), found) == "Lake Orrin"


@given(st.text(max_size=80), st.text(max_size=200))
def test_an_answer_is_always_a_piece_of_the_sentence(question: str, sentence: str) -> None:
    assert fill_gap(analyse(question), [evidence(sentence)]) in sentence
