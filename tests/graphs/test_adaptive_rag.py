"""Adaptive-RAG: each route, who chooses it, and the fallback retrieval."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.graphs import build_graph
from ragweave.nodes.route import Complexity
from ragweave.testing import RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"
ADA = "It was she. So the answer is Ada Brenner."
STEP = "The bridge at Alden stands on the river Sorre."


def run(
    reply: str, *answers: str, given: Any = (), reason: str = "So the answer is: Ada Brenner.", **options: Any
) -> tuple[dict[str, Any], list[str], list[str]]:
    """Return the output, the nodes that asked, and the searches."""
    replies = iter(answers or [ADA])

    def script(call: Any) -> str:
        table = {"classify": reply, "reason": reason if STEP in call.text.rpartition("Question:")[2] else STEP}
        return table.get(call.node) or next(replies)

    model, retriever = ScriptedModel(script=script), RecordingRetriever()
    graph = build_graph("adaptive_rag", model=model, retriever=retriever, **options)
    out = graph.invoke({"question": QUESTION, "passages": list(given)})
    return out, [call.node for call in model.calls], retriever.searches


@pytest.mark.parametrize(
    ("reply", "nodes", "searches", "passages"),
    [
        ("none", ["classify", "answer_cot"], [], 0),
        ("one", ["classify", "answer_cot"], [QUESTION], 8),
        ("several", ["classify", "reason", "reason", "answer_cot"], [QUESTION, STEP], 6),
        ("hm", ["classify", "answer_cot"], [QUESTION], 8),
    ],
)
def test_the_classifier_chooses(reply: str, nodes: list[str], searches: list[str], passages: int) -> None:
    out, asked, searched = run(reply)
    assert (out["answer"], asked, searched, len(out["passages"])) == ("Ada Brenner", nodes, searches, passages)


@pytest.mark.parametrize(
    ("text", "word"),
    [("one", "one"), ("Several.", "several"), ("A", "none"), ("Class: C", "several"), ("A question", None), ("", None)],
)
def test_a_class_is_a_word_or_the_papers_letter(text: str, word: str | None) -> None:
    form = Complexity.from_text(text)
    assert (form and form.searches) == word


@pytest.mark.parametrize(("strategy", "searches"), [("none", 0), ("one", 1), ("many", 2)])
def test_a_strategy_for_all_questions_asks_no_classifier(strategy: str, searches: int) -> None:
    out, asked, searched = run("", strategy=strategy)
    assert (out["answer"], "classify" in asked, len(searched)) == ("Ada Brenner", False, searches)


def test_what_was_to_take_no_search_and_is_unknown_is_searched_for_once() -> None:
    out, asked, searched = run("none", "So the answer is Unknown.", ADA)
    assert (out["answer"], len(asked), searched) == ("Ada Brenner", 3, [QUESTION])
    out, asked, searched = run("none", "So the answer is Unknown.", fallback_retrieval=False)
    assert (out["status"], len(asked), searched) == ("unknown", 2, [])


def test_given_passages_are_read_once_or_step_by_step() -> None:
    given = ["Ada Brenner built it."]
    assert run("", given=given)[1:] == (["answer_cot"], [])
    assert run("", given=given, strategy="many")[1:] == (["reason", "reason", "answer_cot"], [])


def test_one_round_finds_as_many_as_its_own_option_says() -> None:
    assert len(run("one", k_one=2)[0]["passages"]) == 2


def test_the_chain_may_answer_itself() -> None:
    out, asked, _ = run("several", read_by="chain")
    assert (out["answer"], asked) == ("Ada Brenner", ["classify", "reason", "reason"])
    assert run("one", "Ada Brenner", read_by="chain")[1] == ["classify", "answer"]
