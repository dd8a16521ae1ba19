"""Decomposition: the pool, its reranker, and sub-questions in turn."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.retrieval import RerankRetriever

QUESTION = "Where did the builder of the bridge at Alden study?"
SPLIT = "1. Who built the bridge at Alden?\n2. Where did #1 study?"


class TestContract(MethodTests):
    method = "decompose"
    replies = {"split": "1. Who built it?\n2. Which bridge is at Alden?", "answer": "Ada Brenner"}


class TestInTurn(MethodTests):
    method = "decompose"
    options = {"solve": "in_turn"}
    looping = {
        "split": "1. Who is it?\n2. Where is #1?\n3. How old is #2?\n4. Who drew #3?\n5. Who owns #4?",
        "solve": "Ada Brenner",
        "answer": "Ada Brenner",
    }
    replies = {"split": SPLIT, "solve": "Ada Brenner", "answer": "Ada Brenner"}


def run(split: str, solved: str = "Ada Brenner", **options: Any) -> tuple[dict[str, Any], list[ModelCall], list[str]]:
    model = ScriptedModel(script={"split": split, "solve": solved, "answer": "Norhaven"})
    retriever = RecordingRetriever()
    out = build_graph("decompose", model=model, retriever=retriever, **options).invoke({"question": QUESTION})
    assert out["answer"] == "Norhaven"
    return out, model.calls, retriever.searches


def test_what_all_questions_find_is_one_pool() -> None:
    out, calls, searches = run("1. Who built the bridge at Alden?\n2. Where did Ada Brenner study?", k=2, pool=3)
    assert sorted(searches) == sorted([QUESTION, "Who built the bridge at Alden?", "Where did Ada Brenner study?"])
    assert [call.node for call in calls] == ["split", "answer"]
    assert len(out["passages"]) == 3


def test_at_most_five_sub_questions_are_searched_for() -> None:
    _, _, searches = run("\n".join(f"{number}. What is card {number}?" for number in range(1, 9)))
    assert len(searches) == 6


@pytest.mark.parametrize("split", [QUESTION, "", "…"])
def test_a_question_that_is_not_split_is_searched_for_alone(split: str) -> None:
    for solve in ("together", "in_turn"):
        _, calls, searches = run(split, solve=solve)
        assert (searches, [call.node for call in calls]) == ([QUESTION], ["split", "answer"])


def test_the_retrievers_reranker_ranks_the_pool_for_the_question() -> None:
    class Longest:
        asked: list[str] = []

        def predict(self, pairs: list[tuple[str, str]], /) -> list[float]:
            self.asked.append(pairs[0][0])
            return [float(len(text)) for _, text in pairs]

    scorer, model = Longest(), ScriptedModel(script={"split": SPLIT, "answer": "Norhaven"})
    retriever = RerankRetriever.over(RecordingRetriever(), scorer, k=2)
    out = build_graph("decompose", model=model, retriever=retriever, k=8, pool=8).invoke({"question": QUESTION})
    lengths = [len(doc.page_content) for doc in out["passages"]]
    assert (lengths == sorted(lengths, reverse=True), scorer.asked[-1]) == (True, QUESTION)


def test_in_turn_an_answer_goes_into_the_next_search() -> None:
    out, calls, searches = run(SPLIT, solve="in_turn")
    assert sorted(searches[:2]) == sorted([QUESTION, "Who built the bridge at Alden?"])
    assert searches[2:] == ["Where did Ada Brenner study?"]
    assert [call.node for call in calls] == ["split", "solve", "solve", "answer"]
    assert "Who built the bridge at Alden? Ada Brenner\nWhere did Ada Brenner study? Ada Brenner" in calls[-1].last
    assert out["usage"]["calls"] == 4


def test_questions_of_one_rank_are_searched_for_together() -> None:
    _, _, searches = run("1. Where did #3 study?\n2. How old is the bridge?\n3. Who built it?", solve="in_turn")
    assert set(searches[:3]) == {QUESTION, "How old is the bridge?", "Who built it?"}
    assert searches[3:] == ["Where did Ada Brenner study?"]


@pytest.mark.parametrize("split", ["1. Where is #2?\n2. What is at #1?", "1. Who is #1?\n2. Where is #9?"])
def test_references_in_a_circle_or_to_nothing_end(split: str) -> None:
    _, calls, _ = run(split, "Unknown", solve="in_turn")
    assert [call.node for call in calls].count("solve") == 2


def test_given_passages_are_read_for_each_sub_question() -> None:
    given = {"question": QUESTION, "passages": ["Ada studied in Norhaven."]}
    for solve, nodes in (("together", ["answer"]), ("in_turn", ["split", "solve", "solve", "answer"])):
        model = ScriptedModel(script={"split": SPLIT, "solve": "Ada", "answer": "Norhaven"})
        out = build_graph("decompose", model=model, solve=solve).invoke(given)
        assert ([call.node for call in model.calls], out["answer"]) == (nodes, "Norhaven")
