"""Chain-of-Note: notes, the answer after them, and the forms that constrain a model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, RecordingRetriever, ScriptedModel

GIVEN = {"question": "Who built the bridge?", "passages": ["Ada Brenner built it.", "It is long."]}
NOTES = "Note 1: It was built by Ada Brenner.\nNote 2: Its length; irrelevant.\n"


class TestContract(MethodTests):
    method = "chain_of_note"
    replies = [f"{NOTES}Answer: Ada Brenner"]


def run(*replies: str, given: Any = GIVEN, **options: Any) -> tuple[dict[str, Any], ScriptedModel]:
    model = ScriptedModel(script=replies)
    retriever = RecordingRetriever(documents=[])
    return build_graph("chain_of_note", model=model, retriever=retriever, **options).invoke(given), model


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (f"{NOTES}Answer: Ada Brenner", "Ada Brenner"),
        (f"{NOTES}**Answer:** Ada Brenner.", "Ada Brenner"),
        (f"{NOTES}Based on the passages, the answer is Ada Brenner.", "Ada Brenner"),
        (f"{NOTES}Answer: Unknown", "Unknown"),
        (NOTES, "Unknown"),
        ("Note 1: Ada Brenner built it.", "Unknown"),
    ],
)
def test_the_answer_stands_behind_the_notes_and_a_note_is_none(reply: str, answer: str) -> None:
    out, model = run(reply, ask_again=False)
    assert (out["answer"], len(model.calls)) == (answer, 1)


def test_a_long_answer_is_all_that_stands_behind_its_label() -> None:
    out, _ = run(f"{NOTES}Answer: Ada did. The answer is short.", given={**GIVEN, "answer_type": "long"})
    assert out["answer"] == "Ada did. The answer is short."


def test_notes_without_an_answer_are_asked_for_it_and_have_room() -> None:
    out, model = run(NOTES, "Ada Brenner")
    assert (out["answer"], len(model.calls)) == ("Ada Brenner", 2)
    assert model.calls[0].settings["max_tokens"] == 2 * 64 + 64
    many = {**GIVEN, "passages": [f"Passage {place}." for place in range(20)]}
    assert run(NOTES, given=many)[1].calls[0].settings["max_tokens"] == 20 * 64 + 64
    assert run(NOTES, given=many, reply_tokens=300)[1].calls[0].settings["max_tokens"] == 300


def test_a_model_that_can_is_held_to_the_notes_form() -> None:
    reply = json.dumps({"notes": ["Ada built it.", "irrelevant"], "answer": "Ada Brenner"})
    model = ScriptedModel(script=[reply], profile={"structured_output": True})
    out = build_graph("chain_of_note", model=model).invoke(GIVEN)
    assert (out["answer"], model.calls[0].form) == ("Ada Brenner", "Notes")


def test_what_is_asked_if_no_passage_helps_and_without_passages() -> None:
    _, model = run("Ada")
    assert "answer from what you know. If you don't know the answer, just say Unknown. Begin" in model.calls[0].last
    _, model = run("Ada", own_knowledge=False)
    assert "If the passages don't answer the question, just say Unknown." in model.calls[0].last
    question = {"question": GIVEN["question"]}
    out, model = run("Ada", given=question)
    assert (out["answer"], "Note" in model.calls[0].last) == ("Ada", False)
    out, model = run("Ada", given=question, own_knowledge=False)
    assert (out["status"], model.calls) == ("unknown", [])


def test_without_notes_it_is_concat() -> None:
    _, model = run("Ada", notes=False)
    assert "Answer the question from the passages." in model.calls[0].last


def test_the_printed_prompt() -> None:
    _, model = run("Ada", profile="paper")
    assert model.calls[0].text.startswith(
        "Task Description:\n1. Read the given question and five Wikipedia passages to gather relevant information.\n2. Write "
        "reading notes summarizing the key points from these passages.\n3. Discuss the relevance"
    )
