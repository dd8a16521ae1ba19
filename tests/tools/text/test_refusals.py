"""Refusals and answers, recorded from models and written by hand: told apart both ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragweave.nodes.replies import parse_answer
from ragweave.tools.text.unknown import UNKNOWN, is_unknown

RECORDED = Path(__file__).parents[2] / "recorded"


def texts(name: str) -> list[str]:
    lines = (RECORDED / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


@pytest.mark.parametrize(("name", "unknown"), [("refusals", True), ("answers", False)])
def test_at_least_98_in_100_are_read_as_meant(name: str, unknown: bool) -> None:
    said = texts(name)
    wrong = [text for text in said if is_unknown(text) != unknown]
    assert len(said) >= 500
    assert len(wrong) <= 0.02 * len(said), wrong


@pytest.mark.parametrize(("name", "unknown"), [("refusals", True), ("answers", False)])
def test_what_the_answer_step_reads(name: str, unknown: bool) -> None:
    said = texts(name)
    wrong = [text for text in said if (parse_answer(text, "short") == UNKNOWN) != unknown]
    assert len(wrong) <= 0.02 * len(said), wrong


@pytest.mark.parametrize(
    "text",
    [
        "There is no mention of the bridge in passage 1, but passage 2 says Paris",
        "Passage 1 does not say. Passage 2 says Paris.",
        "The year isn't given, but it was about 1934.",
    ],
)
def test_what_one_passage_lacks_and_another_gives_is_an_answer(text: str) -> None:
    assert not is_unknown(text)
