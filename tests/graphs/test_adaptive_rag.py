"""Adaptive-RAG: what a single round reads, and a second look behind an answer without retrieval."""

from __future__ import annotations

from typing import Any

import pytest
from tests.loops import events, final_state
from tests.scripted import OwnListRetriever, ScriptedChat, documents

from ragweave import build_graph

QUESTION: Any = {"question": "Who built it?"}
FOUND = documents(*(f"text {index}" for index in range(30)))
ADA = "So the answer is Ada."


def run(replies: list[str], **options: Any) -> tuple[dict[str, Any], OwnListRetriever]:
    own = OwnListRetriever(documents=FOUND)
    graph = build_graph(
        "adaptive_rag", model=ScriptedChat(replies=replies), retriever=own, **options
    )
    return dict(graph.invoke(QUESTION)), own


@pytest.mark.parametrize("options", [{"k_one": 20}, {"max_passages": 4}, {"order": "reversed"}])
def test_a_single_round_reads_all_that_it_finds(options: dict[str, Any]) -> None:
    out, own = run([ADA], strategy="one", **options)
    k = options.get("k_one", 15)
    assert own.asked == [("Who built it?", k)]
    assert len(out["passages"]) == k


def test_a_second_look_reads_all_that_it_finds() -> None:
    out, _ = run(["So the answer is Unknown.", ADA], strategy="none", k_one=20)
    assert len(out["passages"]) == 20


@pytest.mark.parametrize("again", [True, False])
def test_unknown_without_a_document_is_noted_where_the_run_ends(again: bool) -> None:
    graph = build_graph(
        "adaptive_rag",
        model=ScriptedChat(replies=["So the answer is Unknown."]),
        retriever=OwnListRetriever(documents=FOUND),
        strategy="none",
        second_look=again,
    )
    state = final_state(graph, QUESTION)
    assert (state["status"], len(state["passages"])) == ("unknown", 15 if again else 0)
    assert ("unknown_without_documents" in events(state)) is not again


def test_a_second_look_that_finds_nothing_does_not_ask_again() -> None:
    model = ScriptedChat(replies=["So the answer is Unknown.", ADA])
    own = OwnListRetriever()
    graph = build_graph("adaptive_rag", model=model, retriever=own, strategy="none")
    state = final_state(graph, QUESTION)
    assert (state["status"], len(model.seen), len(own.asked)) == ("unknown", 1, 1)
    assert state["notes"][-1]["detail"] == {"why": "nothing was found"}


def test_without_a_retriever_there_is_no_second_look() -> None:
    model = ScriptedChat(replies=["So the answer is Unknown."])
    out = build_graph("adaptive_rag", model=model, strategy="none").invoke(QUESTION)
    assert (out["status"], len(model.seen)) == ("unknown", 1)


@pytest.mark.parametrize("samples", [1, 2])
def test_a_second_look_keeps_the_first_answer_among_the_candidates(samples: int) -> None:
    unsure = ["So the answer is Unknown."] * samples
    out, _ = run([*unsure, ADA], strategy="none", samples=samples)
    made = [(one["answer"], one["round"]) for one in out["candidates"].values()]
    assert made == [("Unknown", 0)] * samples + [("Ada", 1)] * samples
    assert out["usage"]["calls"] == len(made)
    assert out["answer"] == "Ada"


@pytest.mark.parametrize(
    ("replies", "options"),
    [
        (["It is a bridge.", ADA, ADA], {}),
        (["It is a bridge.", ADA], {"read_by": "chain"}),
    ],
)
def test_given_passages_are_reasoned_over_where_all_questions_take_many_rounds(
    replies: list[str], options: dict[str, Any]
) -> None:
    model = ScriptedChat(replies=replies)
    graph = build_graph("adaptive_rag", model=model, strategy="many", **options)
    state = final_state(graph, {**QUESTION, "passages": ["It is long.", "Ada built it."]})
    assert (state["answer"], state["usage"]["calls"]) == ("Ada", len(replies))
    assert (state["route"], len(state["hops"]), len(state["passages"])) == ("many", 2, 2)


def test_many_rounds_keep_no_more_than_their_limit() -> None:
    out, _ = run(["It is a bridge.", ADA, ADA], strategy="many", max_passages=4)
    assert len(out["passages"]) == 4
