"""CRAG: the three actions, the strips that stay, and the paper's prompts."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from ragweave import build_graph
from ragweave.testing import CARDS, ModelCall, RecordingRetriever, ScriptedModel

ASK = {"question": "Who built the bridge at Alden?"}
REPLIES = {"refine": "1", "keywords": "Query: quarry at Veld", "answer": "Ada Brenner"}


def run(grade: str, options: dict[str, Any] | None = None, **replies: str) -> tuple[dict[str, Any], list[ModelCall]]:
    model = ScriptedModel(script={**REPLIES, "grade": grade, **replies})
    second = RecordingRetriever(documents=[CARDS[6]])
    given = {"model": model, "retriever": RecordingRetriever(), "second_retriever": second, "k": 2, **(options or {})}
    return build_graph("crag", **given).invoke(ASK), model.calls


@pytest.mark.parametrize(
    ("grade", "passages", "searches"),
    [("Correct", ["doc0"], 1), ("Incorrect", ["doc6"], 2), ("Ambiguous", ["doc0"], 2), ("hm", ["doc0"], 2)],
)
def test_what_is_retrieved_is_refined_replaced_or_added_to(grade: str, passages: list[str], searches: int) -> None:
    out, _ = run(grade)
    assert [passage.id for passage in out["passages"]] == passages
    assert out["usage"]["retrievals"] == searches


def test_the_first_strips_named_stay() -> None:
    out, _ = run("Correct", {"max_strips": 1, "strip_sentences": 1}, refine="2, 1")
    assert [passage.page_content for passage in out["passages"]] == ["Its five arches are of grey granite."]


def test_the_papers_prompts() -> None:
    _, calls = run("no", {"profile": "paper", "k": 1})
    texts = {call.node: call.text for call in calls}
    assert texts["grade"] == (
        "Given a question, does the following document have exact information to answer the question? Answer yes or no "
        f"only.\nQuestion: {ASK['question']}\nDocument: Card 0: {CARDS[0].page_content}"
    )
    assert texts["keywords"].startswith(
        "Extract at most three keywords separated by comma from the following dialogues and questions as queries for the "
        "web search, including topic background within dialogues and main intent within questions. \n\n"
        "question: What is Henry Feilden's occupation?\nquery: Henry Feilden, occupation\n\n"
    )
    assert texts["keywords"].endswith(f"question: {ASK['question']}\nquery: ")
    assert {call.node for call in run("yes", {"profile": "paper"})[1]} == {"grade", "refine", "answer"}


def verdict(chance: float) -> AIMessage:
    """Return a reply of yes with its probability."""
    listed = [{"token": "yes", "logprob": math.log(chance)}, {"token": "no", "logprob": math.log(1 - chance)}]
    return AIMessage("yes", response_metadata={"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}})


@pytest.mark.parametrize(
    ("chance", "options", "grade"),
    [
        (0.81, {}, "Correct"),
        (0.78, {}, "Ambiguous"),
        (0.006, {}, "Ambiguous"),
        (0.004, {}, "Incorrect"),
        (0.78, {"upper": 0.5}, "Correct"),
    ],
)
def test_the_papers_thresholds_reach_all_three_actions(chance: float, options: dict[str, float], grade: str) -> None:
    """Section 4.3: above 0.59 and below -0.99 on PopQA, on a scale from -1 to 1."""
    out, calls = run(verdict(chance), {"profile": "paper", "k": 1, **options})  # type: ignore[arg-type]
    searches = [call.node for call in calls].count("keywords")
    ids = [passage.id for passage in out["passages"]]
    assert {"Correct": (0, ["doc0"]), "Ambiguous": (1, ["doc0"]), "Incorrect": (1, ["doc6"])}[grade] == (searches, ids)
