"""Reading the replies that models give to the Self-Ask prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.undressed import undressed

from ragweave.nodes.replies import bare_text
from ragweave.nodes.self_ask import final_answer, parse_self_ask
from ragweave.tools.text.unknown import UNKNOWN

PIECES = [
    "Follow up:",
    "**Follow-up question 2:** ",
    "Are follow up questions needed here:",
    "Yes.",
    "No.",
    "Intermediate answer:",
    "So the final answer is:",
    "The final answer is ",
    "Question:",
    "Who built it?",
    "where he was born",
    "Paris",
    "Unknown",
    "none",
    "```",
    "<think>",
    "</think>",
    "\n",
    " ",
    "**",
    ":",
]
REPLIES = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
KINDS = st.sampled_from(["short", "long", "yes_no"])


@pytest.mark.parametrize(
    "reply",
    [
        "Yes.\nFollow up: Who built it?",
        "Follow up: Who built it?",
        "**Follow-up:** Who built it?",
        "Follow up question 1: Who built it?\nIntermediate answer: Bob\nSo the final answer is: Bob",
        "Are follow up questions needed here: Yes.\nFollow up: Who built it?\n\nQuestion: And?",
        "Follow up:\n\nWho built it?",
        "Follow up: none\nFollow up: Who built it?",
        "Yes. Who built it?",
        "Who built it?",
        "<think>Follow up: no</think>Follow up: Who built it? Intermediate answer: Bob",
        "follow up: Who built it? So the final answer is: Bob",
    ],
)
def test_follow_ups(reply: str) -> None:
    said = parse_self_ask(reply, "short", first=True)
    assert (said.kind, said.text) == ("follow_up", "Who built it?")


@pytest.mark.parametrize("asked", ['"Jaws" is by whom?', 'the director of "Jaws"', "Who is “Ada”"])
def test_a_follow_up_keeps_a_name_in_quotes(asked: str) -> None:
    for said in (asked, f"“{asked}”", f"**{asked}**"):
        assert parse_self_ask(f"Follow up: {said}", "short", first=False).text == asked


def test_a_follow_up_needs_no_question_mark() -> None:
    said = parse_self_ask("Follow up: the builder of the light", "short", first=False)
    assert (said.kind, said.text) == ("follow_up", "the builder of the light")


@pytest.mark.parametrize(
    "reply",
    [
        "So the final answer is: Paris",
        "No.\nSo the final answer is: Paris.",
        "No. The final answer is **Paris**\n\nQuestion: What else?\nSo the final answer is: Rome",
        "Final answer: Paris\nFollow up: Who?",
        "Paris",
        "No. Paris.",
        "No follow up questions are needed. The answer is Paris.",
        "Follow up: None\nSo the final answer is: Paris",
        "Follow up: No further questions needed.\nSo the final answer is: Paris",
        "Follow up: No further information is needed.\nSo the final answer is: Paris",
        "Follow up: None needed\nSo the final answer is: Paris",
        "Follow up: No more follow-up questions are necessary.\nSo the final answer is: Paris",
    ],
)
def test_final_answers(reply: str) -> None:
    said = parse_self_ask(reply, "short", first=True)
    assert (said.kind, said.text) == ("final", "Paris")


def test_a_leading_no_answers_the_question_only_later() -> None:
    assert parse_self_ask("No.", "yes_no", first=True).kind == "unreadable"
    assert parse_self_ask("No.", "yes_no", first=False).text == "No"
    assert parse_self_ask("So the final answer is: no", "yes_no", first=True).text == "No"


def test_a_long_answer_keeps_its_lines() -> None:
    reply = "So the final answer is: Paris.\nIt lies on the Seine.\nQuestion: more?"
    assert parse_self_ask(reply, "long", first=False).text == "Paris.\nIt lies on the Seine."


@pytest.mark.parametrize("reply", ["", " \n", "Yes.", "No", "Follow up:", "```\n```", "…"])
def test_unreadable(reply: str) -> None:
    assert parse_self_ask(reply, "short", first=True).kind == "unreadable"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris", "Paris"),
        ("So the final answer is: Paris", "Paris"),
        ("Follow up: Who?", UNKNOWN),
        ("", UNKNOWN),
        ("Paris.\n\nQuestion: next?", "Paris"),
    ],
)
def test_the_last_reply_is_an_answer(reply: str, answer: str) -> None:
    assert final_answer(reply, "short") == answer


@given(REPLIES, KINDS, st.booleans())
def test_nothing_is_made_up(reply: str, kind: str, first: bool) -> None:
    said = parse_self_ask(reply, kind, first=first)  # type: ignore[arg-type]
    assert (said.text == "") == (said.kind == "unreadable")
    if said.text not in (UNKNOWN, "Yes", "No"):
        assert undressed(said.text) in undressed(bare_text(reply))
    if said.kind == "follow_up":
        assert "\n" not in said.text


@given(REPLIES, KINDS)
def test_a_last_answer_is_never_empty(reply: str, kind: str) -> None:
    answer = final_answer(reply, kind)  # type: ignore[arg-type]
    assert answer
    assert undressed(answer) in undressed(bare_text(reply)) or answer in (UNKNOWN, "Yes", "No")
