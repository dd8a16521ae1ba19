"""Reading a reply takes time in proportion to its length, whatever the reply."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragweave.nodes.crag_reply import parse_grade, parse_keywords
from ragweave.nodes.flare import first_doubtful, masked
from ragweave.nodes.knowledge_filter import read_topic
from ragweave.nodes.react_reply import last_answer, parse_react
from ragweave.nodes.replies import bare_text, concluding, parse_answer, read_answer
from ragweave.nodes.retrieval_decision import parse_need
from ragweave.nodes.self_ask import final_answer, parse_self_ask
from ragweave.nodes.sure_reply import parse_candidates, parse_preference, parse_validity
from ragweave.tools.claims import (
    known_label,
    parse_claims,
    parse_ids,
    parse_judgement,
    parse_rewrite,
)
from ragweave.tools.models.forms import Token
from ragweave.tools.text.normalize import normalize_answer, words
from ragweave.tools.text.reply import PromptParts, echo_of
from ragweave.tools.text.sentences import Sentence
from ragweave.tools.text.unknown import is_unknown

PARTS = PromptParts("What does Cedar Bridge cross?", observed="the river Osk")
TITLES = ("Cedar Bridge", "Osk", "Verra")


def doubted(text: str) -> object:
    tokens = [Token(index, index + 1, 0.5) for index in range(0, len(text), 2)]
    return first_doubtful(text, tokens, 0.4)


def masked_words(text: str) -> object:
    tokens = [Token(index, index + 1, 0.1 + index % 3 / 3) for index in range(0, len(text), 2)]
    return masked(Sentence(text, 0, len(text)), tokens, 0.4)


READERS: dict[str, Callable[[str], object]] = {
    "answer": lambda text: parse_answer(text, "short"),
    "yes_no": lambda text: parse_answer(text, "yes_no"),
    "long": lambda text: parse_answer(text, "long"),
    "reasoned": lambda text: read_answer(text, "short", PARTS, reasons=True),
    "bare": bare_text,
    "echo": lambda text: echo_of(text, PARTS),
    "react": lambda text: parse_react(text, "short", PARTS, observed=True),
    "react_last": lambda text: last_answer(text, "short"),
    "self_ask": lambda text: parse_self_ask(text, "short", PARTS, first=True),
    "self_ask_last": lambda text: final_answer(text, "short"),
    "need": parse_need,
    "topic": read_topic,
    "judgement": parse_judgement,
    "ids": lambda text: parse_ids(text, 5, TITLES),
    "rewrite": lambda text: parse_rewrite(text, PARTS.question),
    "claims": parse_claims,
    "label": lambda text: known_label(text, [["Paris", "Lutetia"]]),
    "unknown": is_unknown,
    "concluding": concluding,
    "candidates": lambda text: parse_candidates(text, "short", 2),
    "preference": parse_preference,
    "validity": parse_validity,
    "grade": parse_grade,
    "keywords": lambda text: parse_keywords(text, PARTS.question),
    "normalize": normalize_answer,
    "words": words,
    "doubtful": doubted,
    "masked": masked_words,
}

PIECES = (
    *("(", "[", "{", "<", ")", "]", "}", ">", "[[", "((", "`", "```", "*", "_", "#", "\n", "\r", "\t"),
    *(" ", "  ", ".", "...", "…", ",", ";", ":", "-", "—", "\\", '"', "'", "|", "=", "🙂", "é", "中", "\x00"),
    *("a", "0", "1, ", "7-9999 ", "0 (T), ", "knowledge 1 ", "id 3 ", "relevant ", "all but ", "none "),
    *("Thought: ", "Action: ", "Search[", "Finish[", "Search ", "Action Input", "\nObservation", "x]\n"),
    *("follow up: ", "final answer", "yes ", "no ", "question: ", "So the answer is ", "answer  "),
    *("<think>", "</think>", "<answer>", "\\boxed{", "\\text{", "{}", "known(", "true or ", "not "),
    *("<Claim(", "<Query(", ")>", "</Claims>", "<claims>", '"claims": [', "Query: ", "its query "),
    *("the passages ", "do not mention ", "but ", "however, ", "unknown ", "need to search ", "What 1 "),
    *("<passage 1 ", "title=", "Paris. ", "is stated in passage 2. ", "Dr. "),
)  # fmt: skip
SIZE = 2500
FLOOR = 0.1
"""Seconds below which a reading is fast whatever its growth."""

RUNAWAY = (
    *("(" * 100_000, "[" * 100_000, "x\n" * 300_000, "🙂" * 100_000),
    *("So the answer is. " * 40_000, "answer:\n" * 40_000),
    *("a" + " " * 100_000 + '"', "~~~\n" * 50_000, '{"a":' * 50_000, '{"claims": [' * 20_000),
)


def seconds(read: Callable[[str], Any], text: str, repeats: int = 3) -> float:
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        read(text)
        taken.append(time.process_time() - start)
        if taken[-1] < FLOOR:
            break
    return min(taken)


def filled(pieces: list[str], size: int) -> str:
    text = "".join(pieces) or " "
    return (text * (size // len(text) + 1))[:size]


def check(name: str, prefix: str, body: list[str], suffix: str) -> None:
    read = READERS[name]

    def measured(size: int) -> float:
        return seconds(read, prefix + filled(body, size) + suffix)

    larger = measured(4 * SIZE)
    if larger > FLOOR:
        assert larger <= 6 * max(measured(SIZE), FLOOR / 6), (prefix, body, suffix)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("prefix", ["", "answer"])
def test_one_piece_over_and_over(name: str, prefix: str) -> None:
    for piece in PIECES:
        check(name, prefix, [piece], "!x")


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=4, deadline=None)
@given(
    prefix=st.sampled_from(("", *PIECES)),
    body=st.lists(st.sampled_from(PIECES), min_size=1, max_size=4),
    suffix=st.sampled_from(("", "x", "!", *PIECES)),
)
def test_generated_replies(name: str, prefix: str, body: list[str], suffix: str) -> None:
    check(name, prefix, body, suffix)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("text", RUNAWAY)
def test_a_runaway_reply_takes_time_in_proportion(name: str, text: str) -> None:
    if name not in ("doubtful", "masked"):
        quarter = seconds(READERS[name], text[: len(text) // 4])
        assert seconds(READERS[name], text) <= 8 * max(quarter, FLOOR)
