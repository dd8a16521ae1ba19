"""What stands around an answer in a reply, and replies that are lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.nodes.replies import concluding, parse_answer, read_answer
from ragweave.nodes.reply_framing import before_another_question, without_opening
from ragweave.state import AnswerType
from ragweave.tools.text.reply import PromptParts
from ragweave.tools.text.unknown import UNKNOWN

ASKED = "Who built the light?"
BUILDER = "Ada Brenner"
ANOTHER = "Question: Who painted it?\nAnswer: Karl Oster"


def read(reply: str, *, reasons: bool, kind: AnswerType = "short", question: str = ASKED) -> str:
    return read_answer(reply, kind, PromptParts(question), reasons=reasons).answer


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        f"{BUILDER}\n\n{ANOTHER}",
        f"{BUILDER}\n{ANOTHER}",
        f"{BUILDER}\n\n**Question:** Who painted it?\n**Answer:** Karl Oster",
        f"{BUILDER}\n\nQ: Who painted it?\nA: Karl Oster",
        f"{BUILDER}\n\nQuestion 2: Who painted it?\nAnswer 2: Karl Oster",
        f"{BUILDER}\n\nNext question: Who painted it?\nAnswer: Karl Oster",
        f"{BUILDER}\n\nQuestion:\nWho painted it?\nAnswer: Karl Oster",
        f"{BUILDER}\n\n### Question\nWho painted it?\n### Answer\nKarl Oster",
        f"{BUILDER}\nUser: Who painted it?\nAssistant: The answer is Karl Oster.",
        f"{BUILDER}\n\n问题：谁画的？\n回答：Karl Oster",
        f"{BUILDER}\n\nВопрос: Кто?\nОтвет: Karl Oster",
        f"Answer: {BUILDER}\n\n{ANOTHER}",
        f"Question: {ASKED}\nAnswer: {BUILDER}\n\n{ANOTHER}",
        f"She drew it. So the answer is {BUILDER}.\n\n{ANOTHER}",
        f"{BUILDER}\n\nHuman: Who painted it?\n\nAssistant: The answer is Karl Oster.",
        f"{BUILDER}\n\nUser: Who painted it?\n\nAnswer: Karl Oster",
        f"So the answer is {BUILDER}.\n\nQuestion: Who painted it?\nSo the answer is Karl Oster.",
    ],
)
def test_what_answers_another_question_does_not_count(reply: str, reasons: bool) -> None:
    assert read(reply, reasons=reasons) == BUILDER


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        f"Question: Who painted it?\nAnswer: Karl Oster\n\nQuestion: Who drew it?\nAnswer: {BUILDER}",
        f"I ask for its plans.\nQuestion 1: Who painted it?\nAnswer: Karl Oster\n"
        f"Question 2: Who drew it?\nAnswer: {BUILDER}",
        f"Two painters were at work.\nQuestion: Who painted it?\nAnswer: Karl Oster\nSo the answer is {BUILDER}.",
        f"It is old.\nIt is tall.\n\nQuestion: {ASKED}\nAnswer: {BUILDER}",
        f"The note:\nuser: Karl Oster\nAnswer: {BUILDER}",
        f"Sure!\n\nQuestion: Who built the light in Norland?\nAnswer: {BUILDER}",
        f"Let me think about it.\nQuestion: who drew it?\n<answer>{BUILDER}</answer>",
        f"Based on the passages, here it is.\n\nQuestion: Who drew it?\nAnswer: {BUILDER}",
    ],
)
def test_a_question_on_the_way_to_the_answer_cuts_nothing(reply: str, reasons: bool) -> None:
    assert read(reply, reasons=reasons) == BUILDER


def test_a_refusal_a_verdict_and_a_long_answer_end_at_another_question() -> None:
    assert read(f"Unknown\n\n{ANOTHER}", reasons=False) == UNKNOWN
    question = "Is the light tall?"
    reply = "Yes\n\nQuestion: Is it new?\nAnswer: No"
    assert read(reply, reasons=False, kind="yes_no", question=question) == "Yes"
    told = "Ada Brenner built it.\nShe drew it first."
    assert read(f"{told}\n\n{ANOTHER}", reasons=False, kind="long") == told


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        "The builder of the light is Ada Brenner.\nQuestion: When was Ada Brenner born?\nAnswer: 1850",
        "Ada Brenner built the light.\nQ: When was she born?\nA: 1850",
        "**Decomposition**\n\n**Question:** Who built it?\n**Answer:** Ada\n\n"
        "**Question:** When was she born?\n**Answer:** 1850",
        "Passage: Ada (born 1850) built it.\n\nQuestion: What year was Ada born?\n\nAnswer: 1850",
    ],
)
def test_a_step_of_several_is_no_answer(reply: str, reasons: bool) -> None:
    question = "When was the builder of the light born?"
    assert read(reply, reasons=reasons, question=question) == "1850"


def test_a_step_without_a_verdict_is_no_answer() -> None:
    reply = "The mill is tall.\nQuestion: Is the light tall?\nAnswer: Yes"
    assert read(reply, reasons=False, kind="yes_no", question="Are both tall?") == "Yes"


@pytest.mark.parametrize(
    "reply",
    [
        "It follows Q = mcT, where\nQ: the heat energy\nm: the mass",
        "Revenue rose:\nQ3: 5.2 million\nQ4: 6 million",
        "The species are:\n\n- Human: 46\n- Dog: 78",
        "Log in as follows.\n\nUser: admin\nPassword: none",
        "An FAQ tells.\n\nQ: Why?\nA: Because it is tall.",
    ],
)
def test_names_that_look_like_a_question_stay_in_a_long_answer(reply: str) -> None:
    assert read(reply, reasons=False, kind="long") == reply


def test_a_question_of_several_lines_may_be_told_again() -> None:
    question = "Which of these is tall?\nA) light\nB) mill"
    reply = "Sure.\nQuestion: Which of these is tall?\nA) light\nB) mill\nAnswer: A) light"
    assert read(reply, reasons=False, question=question) == "A) light"


def test_a_reasoning_that_concluded_nothing_goes_on() -> None:
    reply = f"It is tall.\nIt is old.\n\nQuestion: Who drew it?\nSo the answer is {BUILDER}."
    assert read(reply, reasons=True) == BUILDER
    assert concluding(f"So the answer is {BUILDER}.\n\n{ANOTHER}", ASKED) == BUILDER


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        f"Based on the passages provided:\n\n**{BUILDER}**",
        f"Sure!\n\n{BUILDER}",
        f"Sure, here is the answer:\n{BUILDER}",
        f"Sure! Here is the answer:\n\n{BUILDER}",
        f"Certainly! {BUILDER}",
        f"I'd be happy to help!\n\n{BUILDER}.",
        f"The light was built by:\n\n{BUILDER}",
        f"{ASKED}\n\n{BUILDER}",
        f"**{ASKED}**\n{BUILDER}",
        f"Question: {ASKED}\n\n{BUILDER}",
    ],
)
def test_what_opens_a_reply_is_no_answer(reply: str, reasons: bool) -> None:
    assert read(reply, reasons=reasons) == BUILDER


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("Sure", "Sure"), ("Okay.", "Okay"), ("Sure Thing, of 1962", "Sure Thing, of 1962")],
)
def test_a_pleasantry_alone_may_be_the_answer(reply: str, answer: str) -> None:
    assert parse_answer(reply, "short") == answer


@pytest.mark.parametrize("reasons", [False, True])
@pytest.mark.parametrize(
    "reply",
    [
        "The passages do not say who built it. They only say the following:\nIt was lit in 1884.",
        "I cannot determine it from the passages. The only mention is:\nA light.",
        "Unknown. Reason:\nThe light is only mentioned.",
        "Unknown:\nIt is not in the passages.",
        f"{ASKED}\nWho painted it?\nWho drew it?",
        f"{ASKED}\n\nAnswer the question with a short phrase.",
    ],
)
def test_a_refusal_and_an_echo_stay_what_they_are(reply: str, reasons: bool) -> None:
    assert read(reply, reasons=reasons) == UNKNOWN


@pytest.mark.parametrize(
    ("reply", "question", "answer"),
    [
        ("**Ada Brenner:**\nShe built it in 1884.", ASKED, "Ada Brenner:"),
        ("Ada Brenner. Explanation:\nPassage 1 says so.", ASKED, "Ada Brenner. Explanation:"),
        ("There were four:\n\nAda, Bo and two more", "How many were there?", "There were four:"),
        ("OK\n\nIt stands for Oklahoma.", "Which state?", "OK"),
    ],
)
def test_a_first_line_that_answers_stays(reply: str, question: str, answer: str) -> None:
    assert read(reply, reasons=False, question=question) == answer


def test_an_announced_reasoning_stays_one() -> None:
    reply = "Let me think:\nIt is a light.\nIt stands in the north."
    assert read_answer(reply, "short", reasons=True).rejected == "no_conclusion"


def test_a_verdict_may_stand_behind_an_announcement() -> None:
    question = "Is the light taller than the mill?"
    reply = "Based on the passages:\n\nYes, the light is taller."
    assert read(reply, reasons=False, kind="yes_no", question=question) == "Yes"


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The light was built by:\n- Ada Brenner\n- Karl Oster", "Ada Brenner, Karl Oster"),
        (
            "Based on the passages, the light was built by:\n1. Ada Brenner\n2. Karl Oster",
            "Ada Brenner, Karl Oster",
        ),
        ("1. Ada Brenner\n2. Karl Oster", "Ada Brenner, Karl Oster"),
        ("- **Ada Brenner**\n- Karl Oster.", "Ada Brenner, Karl Oster"),
        ("They were:\n- Ada Brenner\n- Karl Oster\nAlso see passage 2.", "Ada Brenner, Karl Oster"),
        ("1. Ada Brenner\n2. Unknown", "1. Ada Brenner"),
        ("They were:\n  - Ada Brenner\n  - Karl Oster", "Ada Brenner, Karl Oster"),
        ("They were:\n(1) Ada Brenner\n(2) Karl Oster", "Ada Brenner, Karl Oster"),
        ("- Ada Brenner\n- Ada Brenner\n- Ada Brenner", "Ada Brenner"),
        ("- Ada Brenner\n- Source: Passage 1", "- Ada Brenner"),
        ("1. Yes\n2. Ada built it.", "1. Yes"),
        ("- Ada Brenner\n- Born 1850", "- Ada Brenner"),
        ("They were:\na) Ada Brenner\nb) Karl Oster", "They were:"),
        (
            "1. The light is old and grey and tall.\n2. Ada Brenner built it.",
            "1. The light is old and grey and tall",
        ),
    ],
)
def test_a_list_of_names_is_one_answer(reply: str, answer: str) -> None:
    assert read(reply, reasons=False) == answer


@given(st.text(alphabet=st.sampled_from("Q:q *\n1user Human?.")), st.booleans())
def test_cuts_make_nothing_up(text: str, reasons: bool) -> None:
    assert text.startswith(before_another_question(text, ASKED, reasons=reasons))
    assert text.endswith(without_opening(text, ASKED, reasons=reasons))
