"""Reading whether a model says that it needs retrieval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.need import PROMPTS, parse_need

PIECES = ["Yes", "No", " ", "\n", "**", "Answer: ", "Known(True)", "Known(False)", "maybe", "```"]


@pytest.mark.parametrize(
    "reply", ["Yes", "yes.", "**Yes**", "Yes, I must look it up.", "Answer: yes", "<Known(False)>"]
)
def test_yes(reply: str) -> None:
    assert parse_need(reply) is True


@pytest.mark.parametrize(
    "reply",
    ["No", "no.", "**No**", "No need to.", "The answer is no.", "<Known(True)>", "```\nNo\n```"],
)
def test_no(reply: str) -> None:
    assert parse_need(reply) is False


@pytest.mark.parametrize("reply", ["", "Paris", "I don't know.", "Nothing", "Known", "Yesterday"])
def test_unreadable(reply: str) -> None:
    assert parse_need(reply) is None


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_reply_is_read(reply: str) -> None:
    need = parse_need(reply)
    assert need is None or isinstance(need, bool)
    if need is not None:
        assert any(word in reply.lower() for word in ("yes", "no", "true", "false"))


def test_the_prompt_has_three_examples() -> None:
    messages = PROMPTS["self_eval"].format_messages(question="Who?")
    assert [one.text for one in messages if one.type == "ai"] == ["No", "Yes", "No"]
