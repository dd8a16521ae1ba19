"""What a model says of how much a question takes, and what is read of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.adaptive_rag import parse_complexity
from ragweave.state.records import ROUTES


@pytest.mark.parametrize(
    ("reply", "route"),
    [
        ("none", "none"),
        ("One.", "one"),
        ("**several**", "many"),
        ("Searches: several", "many"),
        ("One search finds it.", "one"),
        ("none, one or several", None),
        ("several: each search looks for what the one before has found.", "many"),
        ("one\n\nExplanation: none of this is common knowledge.", "one"),
        ("It takes one search, and then several more", None),
        ("C: several searches, each for what the one before has found.", "many"),
        ("C\n\nExplanation: first one must find the director", "many"),
        ("A, since no one needs to look it up", "none"),
        ("B - none of this is common knowledge", "one"),
        ("A", "none"),
        ("b", "one"),
        ("C.", "many"),
        ("**B**", "one"),
        ("Answer: C", "many"),
        ("The answer is B.", "one"),
        ("Class A", "none"),
        ("B: one search finds it.", "one"),
        ("I would say C, since two places are asked about.", "many"),
        ("A single search finds the birthplace of the author.", None),
        ("A, B or C", None),
        ("A search", None),
        ("Paris", None),
        ("", None),
    ],
)
def test_the_word_or_the_letter_is_read(reply: str, route: str | None) -> None:
    assert parse_complexity(reply) == route


@given(st.text(max_size=600))
def test_any_reply_is_a_route_or_none(reply: str) -> None:
    assert parse_complexity(reply) in (None, *ROUTES)
