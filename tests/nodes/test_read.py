"""The reader of free text: answers, refusals, verdicts, ids, lists, and marks that are no part of a reply."""

from __future__ import annotations

import pytest

from ragweave.nodes import read
from ragweave.tools.models.messages import without_thoughts

THOUGHT = "Bergen was the capital once, but passage 1 says Oslo."


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Ada Brenner.", "Ada Brenner"),
        ("**Ada Brenner**", "Ada Brenner"),
        ("The bridge was built by Ada. So the answer is Ada Brenner.", "Ada Brenner"),
        ("Answer: Ada Brenner\n\nShe was an engineer.", "Ada Brenner"),
        ("```\nAda Brenner\n```", "Ada Brenner"),
        ('{"answer": "Ada Brenner"}', "Ada Brenner"),
        (r"Therefore, the final answer is \boxed{412}", "412"),
        ("Franklin D. Roosevelt", "Franklin D. Roosevelt"),
        ("Harry S.", "Harry S."),
        ("Unknown", "Unknown"),
        ("I don't know.", "Unknown"),
        ("The passages do not mention who built it.", "Unknown"),
        ("The passages mention the bridge, but they do not say who built it.", "Unknown"),
        (
            "The passages do not name the town, but the bridge was built by Ada.",
            "The passages do not name the town, but the bridge was built by Ada",
        ),
        ("None", "None"),
        ("不明", "Unknown"),
        ("", "Unknown"),
    ],
)
def test_answers(reply: str, answer: str) -> None:
    assert read.answer(reply) == answer


def test_a_reasoning_without_a_conclusion_has_no_answer() -> None:
    reply = "The bridge was built long ago. It has five arches of granite."
    assert read.answer(reply, reasoning=True) == "Unknown"
    assert read.answer(f"{reply} So the answer is granite.", reasoning=True) == "granite"


def test_long_answers_are_all_that_is_said() -> None:
    text = "It was built by Ada Brenner. It has five arches."
    assert read.answer(text, "long") == text
    assert read.answer("I cannot answer this from the passages.", "long") == "Unknown"


@pytest.mark.parametrize(
    ("reply", "verdict"),
    [
        ("Yes", "Yes"),
        ("No, it does not.", "No"),
        ("True", "Yes"),
        ("Both rivers are long. So, yes.", "Yes"),
        ("Perhaps", "Unknown"),
    ],
)
def test_yes_or_no(reply: str, verdict: str) -> None:
    assert read.answer(reply, "yes_no") == verdict


@pytest.mark.parametrize(
    ("reply", "choice"),
    [
        ("Correct", "Correct"),
        ("The passage is incorrect.", "Incorrect"),
        ("It is not correct", None),
        ("Correct or Incorrect", None),
    ],
)
def test_choices(reply: str, choice: str | None) -> None:
    assert read.choice(reply, "Correct", "Ambiguous", "Incorrect") == choice


@pytest.mark.parametrize(
    ("reply", "ids"),
    [
        ("1, 3", [1, 3]),
        ("Knowledge 2 and knowledge 4 are relevant.", [2, 4]),
        ("1-3", [1, 2, 3]),
        ("The relevant ones are:\n2, 9", [2]),
        ("0, 2", [1, 3]),
        ("none", []),
        ("No passage is relevant.", []),
        ("all of them", [1, 2, 3, 4]),
        ("hm", None),
    ],
)
def test_ids(reply: str, ids: list[int] | None) -> None:
    assert read.ids(reply, 1, 4) == ids


def test_a_refusal_ends_at_a_but_that_gives_an_answer() -> None:
    assert not read.is_unknown("The year is not mentioned, but the bridge was built by Ada Brenner.")
    assert read.is_unknown("The year is not mentioned, but nobody knows the builder.")
    assert read.is_unknown("The year is not mentioned.")


def test_sentences_that_say_unknown_are_not_searched_for() -> None:
    assert read.without_unknown("The bridge is old.\nIts builder is unknown.") == "The bridge is old."


@pytest.mark.parametrize(("most", "text"), [(99, "one two three"), (7, "one two"), (8, "one two"), (2, "on")])
def test_a_text_is_cut_at_a_words_end(most: int, text: str) -> None:
    assert read.cut("one two three", most) == text


def test_what_an_example_says_is_a_copy_unless_something_read_says_it() -> None:
    assert read.copied("1891", "So the answer is 1891.", "The bridge was built in 1931.")
    assert not read.copied("1891", "So the answer is 1891.", "It was lit in 1891.")
    assert not read.copied("18", "So the answer is 1891.", "")


def test_items_and_phrases() -> None:
    assert read.listed("(a) Ada Brenner (b) Karl Oster") == ["Ada Brenner", "Karl Oster"]
    assert read.listed("Candidates:\n1. Ada Brenner\n2. Karl Oster") == ["Ada Brenner", "Karl Oster"]
    assert read.phrase("Sure:\nQuery: Alden bridge", "query") == "Alden bridge"


@pytest.mark.parametrize(
    "reply",
    [
        f"<think>\n{THOUGHT}\n</think>\n\nOslo",
        f"{THOUGHT}</think>Oslo",
        f"<seed:think>{THOUGHT}</seed:think>Oslo",
        f"◁think▷{THOUGHT}◁/think▷Oslo",
        f"[THINK]{THOUGHT}[/THINK]Oslo",
        f"<|START_THINKING|>{THOUGHT}<|END_THINKING|><|START_RESPONSE|>Oslo<|END_RESPONSE|>",
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>Oslo<|return|>",
        f"Here is my thought process:\n{THOUGHT}\n\nHere is my response:\n\nOslo",
        "Oslo<|im_end|>\n<|im_start|>user\nAnd of Sweden?<|im_end|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\nOslo<|eot_id|>",
        "assistant\nOslo</s>",
        "Oslo [/INST]",
    ],
)
def test_thoughts_and_template_marks_are_no_part_of_an_answer(reply: str) -> None:
    assert read.answer(reply) == "Oslo"


def test_thoughts_that_are_cut_off_leave_nothing() -> None:
    assert without_thoughts(f"<think>{THOUGHT}") == ""
    assert without_thoughts("Assistant professor") == "Assistant professor"


@pytest.mark.timeout(60)  # a pattern that backtracks takes hours
@pytest.mark.parametrize("unit", ["(", "a\n", "\n", "answer is ", "not ", "<think>", "1-999 ", "<Claim(", '{"a":', " "])
def test_no_reply_hangs_the_reader(unit: str) -> None:
    reply = unit * (40_000 // len(unit))
    assert read.answer(reply) == read.answer(
        reply[: read.MAX_CHARACTERS // 2] + "\n" + reply[-read.MAX_CHARACTERS // 2 :]
    )
    for reader in (read.is_unknown, read.listed, read.phrase):
        reader(reply)
    read.ids(reply, 1, 20)
