"""Reading whether a model says that it needs retrieval."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.retrieval_decision import PROMPTS, parse_need

PIECES = ["Yes", "No", " ", "\n", "**", "Answer: ", "Known(True)", "Known(False)", "maybe", "```"]


@pytest.mark.parametrize(
    "reply",
    [
        *("Yes", "yes.", "**Yes**", "Yes, I must look it up.", "Answer: yes", "<Known(False)>"),
        *(
            "Yes, the mayor is not known to me.",
            "Yes I do",
            "**Known (False)**",
            '{"known": false}',
        ),
        *("I need to look it up.", "I don't know this, so I need to look it up.", "Let me search."),
        *("I would have to look that up.", "Looking it up is necessary.", "I should check this."),
        *("I can't answer that without looking it up.", "Retrieval is needed", "I’ll look it up."),
    ],
)
def test_yes(reply: str) -> None:
    assert parse_need(reply) is True


@pytest.mark.parametrize(
    "reply",
    [
        *("No", "no.", "**No**", "No need to.", "The answer is no.", "<Known(True)>"),
        *("```\nNo\n```", "No, this is well known.", "No. It is known: no doubt.", "No I don't"),
        *("I do not need to look it up.", "I don't need to look anything up.", "[Known(True)]"),
        *("There is no need to search.", "I don't think I need to look it up.", "No - I know it"),
        *("I can answer it without looking it up.", "Retrieval isn't needed.", "known(true)"),
        "This is well known, so I do not need to look it up.",
    ],
)
def test_no(reply: str) -> None:
    assert parse_need(reply) is False


@pytest.mark.parametrize(
    "reply",
    [
        *("", "Paris", "I don't know.", "Nothing", "Known", "Yesterday", "No idea", "No one knows"),
        *("The mayor is not known to me.", "It is known, yes or no?", "It is well known."),
        *("I need to look it up. I do not need to look it up.", "Not <Known(True)>"),
        *("If I need to look it up, I will say so.", "Known (True / False)"),
    ],
)
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
