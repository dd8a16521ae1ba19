"""FLARE: what is doubted, what is searched for, and where the answer ends."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel, unsure

QUESTION = "Who built the bridge at Alden?"
DOUBT = unsure("The bridge is old. Bob built it in Alden. So the answer is Bob.", Bob=0.1, built=0.7)
SURE = "Ada Brenner built it. So the answer is Ada Brenner."


def run(*replies: str | AIMessage, question: Any = QUESTION, **options: Any) -> tuple[dict[str, Any], Any, Any]:
    """Return the final state, the model's calls and the searches."""
    model, retriever = ScriptedModel(script=replies), RecordingRetriever()
    graph = build_graph("flare", model=model, retriever=retriever, **options)
    given = {"question": question} if isinstance(question, str) else question
    *_, state = graph.stream(given, stream_mode="values")
    return state, model.calls, retriever.searches


def test_a_sure_answer_is_one_call() -> None:
    state, calls, searches = run("A hexagon has six sides. So the answer is six.")
    assert (state["answer"], len(calls), searches, state["passages"]) == ("six", 1, [], [])
    assert calls[0].settings["logprobs"] is True


def test_the_doubtful_sentence_is_searched_for_without_its_weak_words() -> None:
    state, calls, searches = run(DOUBT, SURE)
    assert searches == ["built it in Alden."]
    assert calls[1].last.endswith("do not repeat them:\nThe bridge is old.")
    assert state["candidates"]["flare:0"]["reply"] == "The bridge is old. " + SURE
    assert (state["answer"], len(state["passages"])) == ("Ada Brenner", 5)


def test_if_nothing_is_left_of_a_sentence_the_question_is_searched_for() -> None:
    assert run(unsure("So the answer is Bob.", Bob=0.1), "So the answer is Ada.")[2] == [QUESTION]


def test_nothing_after_the_conclusion_is_doubted() -> None:
    reply = unsure("It is old. So the answer is Ada Brenner. Bob was her son.", Bob=0.1)
    assert run(reply)[2] == []
    assert run(reply, "Bob was her son.", question={"question": QUESTION, "answer_type": "long"})[2]


def test_a_reply_may_repeat_what_is_written() -> None:
    state, *_ = run(DOUBT, "The bridge is old. Ada built it. So the answer is Ada.")
    assert [step["text"] for step in state["steps"]] == ["The bridge is old."]
    assert state["candidates"]["flare:0"]["reply"] == "The bridge is old. Ada built it. So the answer is Ada."


def test_the_last_round_takes_what_is_written() -> None:
    doubts = (
        unsure("She came.", came=0.1),
        unsure("It is old. She saw.", saw=0.1),
        unsure("It is. So the answer is Ada."),
    )
    state, calls, searches = run(*doubts, max_rounds=2)
    assert (state["answer"], state["truncated"], len(calls), len(searches)) == ("Ada", False, 3, 2)
    state, *_ = run(DOUBT, unsure("It is. So the answer is Bob.", Bob=0.1), max_rounds=1)
    assert (state["answer"], state["truncated"]) == ("Bob", True)


def test_a_text_without_an_answer_is_asked_for_it_alone() -> None:
    state, calls, _ = run("The bridge at Alden is old. Ada Brenner built it, they say.", "Ada Brenner")
    assert (state["answer"], len(calls)) == ("Ada Brenner", 2)
    assert "final answer alone" in calls[1].last


def test_given_passages_are_read_instead_of_a_search() -> None:
    given = {"question": QUESTION, "passages": ["Ada Brenner built it."]}
    state, calls, searches = run(DOUBT, SURE, question=given)
    assert searches == []
    assert "passage" not in calls[0].text
    assert "Ada Brenner built it." in calls[1].text
    assert len(state["passages"]) == 1


def test_a_model_that_reports_no_probabilities_is_an_error() -> None:
    with pytest.raises(UsageError, match="the probability of each token, and the model reports none"):
        build_graph("flare").invoke({"question": QUESTION})


def test_in_slimplms_words_the_sentence_is_kept_up_to_its_first_weak_token() -> None:
    state, calls, searches = run(
        unsure("It is old. It was Bob who built it.", Bob=0.45), "Ada Brenner.", profile="paper", k=2
    )
    assert searches == ["It was who built it."]
    assert calls[0].text == QUESTION
    head, _, tail = calls[1].text.partition(f"\n{QUESTION}")
    assert head.startswith("Search results:\n[1] ")
    assert head.count("\n") == 2
    assert tail.endswith("\nIt is old. It was")
    assert state["answer"] == "It is old. It was Ada Brenner."
