"""Kinds of questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.extractive.question import analyse


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who designed the bridge?", "person"),
        ("Which actor played the king?", "person"),
        ("where is the tower", "place"),
        ("In which city was she born?", "place"),
        ("When did the war end?", "date"),
        ("what year did the war end", "date"),
        ("How many words does a passage have?", "number"),
        ("What is the population of Norland?", "number"),
        ("Is the tower tall?", "yes_no"),
        ("Did the king live in the north or in the south?", "phrase"),
        ("What are the parts of a flower?", "list"),
        ("What is photosynthesis?", "definition"),
        ("What does RAG stand for?", "definition"),
        ("Why is the sky blue?", "definition"),
        ("What is the capital of Norland?", "phrase"),
        ("Which measure suits fact verification?", "phrase"),
        ("", "phrase"),
    ],
)
def test_kind_of_answer(question: str, kind: str) -> None:
    assert analyse(question).kind == kind


def test_terms_leave_question_words_out() -> None:
    question = analyse("How many steps does the tower have?")
    assert question.terms == {"step", "tower"}
    assert question.head == "step"


@given(st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    question = analyse(text)
    assert question.text == text
    assert analyse(text) == question
