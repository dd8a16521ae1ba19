"""ITER-RETGEN: rounds, queries, ends."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, RecordingRetriever, ScriptedModel

QUESTION = "Where is its builder from?"
SAID = "Ada Brenner built it. So the answer is Ada Brenner."
DOCS = [Document("Ada Brenner built the light.", id="a"), Document("Ada Brenner was born in Eastport.", id="b")]


class TestContract(MethodTests):
    method = "iter_retgen"
    looping = [f"It is on card {number}. So the answer is card {number}." for number in range(9)]
    replies = [SAID]


def run(*replies: str, count: int = 2, **options: Any) -> tuple[dict[str, Any], ScriptedModel, list[str]]:
    model, retriever = ScriptedModel(script=replies), RecordingRetriever(documents=DOCS[:count])
    out = build_graph("iter_retgen", model=model, retriever=retriever, **options).invoke({"question": QUESTION})
    return out, model, retriever.searches


def test_each_round_searches_with_the_last_text_and_the_question() -> None:
    out, model, searches = run(
        SAID, "She came from Eastport.\nSo the answer is Eastport.", "So the answer is Eastport City."
    )
    assert searches == [
        QUESTION,
        f"{SAID} {QUESTION}",
        f"She came from Eastport. So the answer is Eastport. {QUESTION}",
    ]
    assert (out["answer"], out["truncated"], len(model.calls)) == ("Eastport City", False, 3)
    assert [candidate["round"] for candidate in out["candidates"].values()] == [0, 1, 2]


def test_what_says_unknown_stays_out_of_the_query_but_in_a_papers_table() -> None:
    replies = ("Unknown", "The builder was Ada. The year is not mentioned.", "So the answer is 1874.")
    assert run(*replies, ask_again=False)[2] == [QUESTION, QUESTION, f"The builder was Ada. {QUESTION}"]
    assert run(*replies, profile="paper")[2][1:] == [
        f"Unknown {QUESTION}",
        f"The builder was Ada. The year is not mentioned. {QUESTION}",
    ]


def test_samples_vote_in_every_round_and_the_winner_writes_the_query() -> None:
    out, model, searches = run("Bob did. So the answer is Bob.", *[SAID] * 2, SAID, max_rounds=2, samples=3)
    assert searches == [QUESTION, f"{SAID} {QUESTION}"]
    assert (out["answer"], len(out["candidates"])) == ("Ada Brenner", 6)
    assert model.calls[0].settings["temperature"] == 0.7


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({"sample_temperature": 0.0}, 1),
        ({"top_p": 0.0}, 1),
        ({"sample_temperature": 0.7}, 3),
        ({"sample_temperature": 0.0, "samples": 2}, 6),
        ({"sample_temperature": 0.0, "profile": "paper"}, 3),
    ],
)
def test_a_greedy_model_is_not_asked_the_same_again(options: dict[str, Any], calls: int) -> None:
    out, _, searches = run(SAID, count=1, **options)
    assert (out["answer"], out["truncated"], out["usage"]["calls"]) == ("Ada Brenner", False, calls)
    assert len(searches) == (2 if calls == 1 else 3)
    assert len(out["passages"]) == 1


def test_given_passages_are_answered_from_once() -> None:
    model = ScriptedModel(script=[SAID])
    out = build_graph("iter_retgen", model=model).invoke({"question": QUESTION, "passages": DOCS})
    assert (out["answer"], len(model.calls), len(out["passages"])) == ("Ada Brenner", 1, 2)


def test_slimplms_release_puts_the_question_first() -> None:
    """SlimPLM's released `itergen_search.py`."""
    assert run(SAID, profile="slimplm")[2][1] == f"{QUESTION} {SAID}"
    assert run(SAID, profile="blendfilter")[2][1] == f"{SAID} {QUESTION}"
