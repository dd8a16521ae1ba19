"""Estimated token counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, SystemMessage

from ragweave.tools.text.normalize import estimate_message_tokens, estimate_tokens


def test_estimates() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1
    assert estimate_tokens("abcd" * 10) == 10
    assert estimate_tokens("日本語の") == 2


@given(st.text(max_size=60), st.text(max_size=60))
def test_more_text_is_never_fewer_tokens(one: str, other: str) -> None:
    assert estimate_tokens(one + other) >= max(estimate_tokens(one), estimate_tokens(other))
    assert estimate_tokens(one + other) <= estimate_tokens(one) + estimate_tokens(other)


def test_every_message_costs_something() -> None:
    one = [HumanMessage("abcd")]
    two = [SystemMessage(""), HumanMessage("abcd")]
    assert estimate_tokens("abcd") < estimate_message_tokens(one) < estimate_message_tokens(two)
