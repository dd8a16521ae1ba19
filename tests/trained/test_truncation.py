"""Cutting to a number of tokens, against trying every cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.trained.forms import PartInput, truncate_input, truncate_target


def letters(text, *, add_special_tokens=True, verbose=True):
    """A tokenizer of letters, with a mark in front."""
    return {"input_ids": [0] * add_special_tokens + [ord(one) for one in text if one != " "]}


words = st.lists(st.text("ab", min_size=1, max_size=9), max_size=12)
spaces = st.sampled_from([" ", "  "])


@given(words, spaces, st.integers(3, 60))
def test_an_input_keeps_every_word_that_fits(body, space, limit):
    text = space.join(body)
    fitted = truncate_input(letters, PartInput("h", text, "t"), limit)
    beginnings = [space.join(body[:n]) for n in range(len(body) + 1)]
    fitting = [one for one in beginnings if len(one.replace(" ", "")) + 3 <= limit]
    kept = fitted.text[1:-1]
    assert fitted.text == f"h{kept}t"
    assert len(fitted.tokens) == len(kept.replace(" ", "")) + 3 <= limit
    assert fitted.cut == (kept != text)
    # A first word too long for the limit is cut within.
    assert kept == (fitting[-1] if len(fitting) > 1 or not body else body[0][: limit - 3])


@given(words, st.integers(1, 60))
def test_a_target_leaves_room_for_the_end_token(body, limit):
    text = " ".join(body)
    fitted = truncate_target(letters, text, limit)
    assert text.startswith(fitted.text)
    assert len(fitted.tokens) < limit
    assert fitted.cut == (fitted.text != text)
    if fitted.cut:
        rest = text[len(fitted.text) :].split()[0]
        assert len(fitted.tokens) + len(rest) >= limit


def test_a_head_and_tail_that_do_not_fit_are_refused():
    with pytest.raises(UsageError, match="longer than the 5 tokens"):
        truncate_input(letters, PartInput("head", "body", "tail"), 5)
