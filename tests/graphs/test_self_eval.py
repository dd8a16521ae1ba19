"""Self-Eval: the model decides, then answers; the fallback retrieval, which two more methods share."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"


def run(*replies: str, documents: Any = None, **options: Any) -> tuple[dict[str, Any], Any, Any]:
    model = ScriptedModel(script=replies)
    retriever = RecordingRetriever() if documents is None else RecordingRetriever(documents=documents)
    out = build_graph("self_eval", model=model, **{"retriever": retriever, **options}).invoke({"question": QUESTION})
    return out, model.calls, retriever.searches


@pytest.mark.parametrize(("reply", "searched"), [("Yes", 1), ("No, I know this.", 0), ("Perhaps.", 1), ("", 1)])
def test_the_model_decides_and_what_cannot_be_read_retrieves(reply: str, searched: int) -> None:
    out, calls, searches = run(reply, "Ada Brenner")
    assert (out["answer"], len(calls), len(searches), len(out["passages"])) == (
        "Ada Brenner",
        2,
        searched,
        5 * searched,
    )


def test_what_was_said_to_be_known_and_is_not_is_searched_for_once() -> None:
    out, calls, searches = run("No", "Unknown", "Ada Brenner")
    assert (out["answer"], len(calls), searches) == ("Ada Brenner", 3, [QUESTION])
    assert [candidate["answer"] for candidate in out["candidates"].values()] == ["Unknown", "Ada Brenner"]
    out, calls, searches = run("No", "Unknown")
    assert (out["status"], len(calls), len(searches)) == ("unknown", 3, 1)


@pytest.mark.parametrize(
    ("more", "searched"),
    [({"documents": []}, 1), ({"retriever": None}, 0), ({"fallback_retrieval": False}, 0), ({"profile": "paper"}, 0)],
)
def test_no_prompt_is_sent_twice_if_the_fallback_finds_nothing(more: dict[str, Any], searched: int) -> None:
    out, calls, searches = run("No", "Unknown", **more)
    assert (out["status"], len(calls), len(searches)) == ("unknown", 2, searched)


def test_the_judge_decides_if_asked_to() -> None:
    judge = ScriptedModel(script=["No"], role="judge")
    _, calls, _ = run("Ada", judge=judge, decided_by="judge")
    assert (len(judge.calls), len(calls)) == (1, 1)
    _, calls, _ = run("No", "Ada", judge=judge)
    assert (len(judge.calls), len(calls)) == (1, 2)


def test_the_released_prompt() -> None:
    _, calls, _ = run("Yes, I need additional information.", "Ada", profile="paper", k=1)
    first, *shots, last = [str(message.text) for message in calls[0].messages]
    assert first.startswith("Based on your knowledge you should tell if you need additional information")
    assert shots[2:4] == [
        "Question: [[what age do you have to be to smoke in france?]] Do you need additional information to answer this "
        "question?",
        "Yes, I need additional information.",
    ]
    assert last == f"Question: [[{QUESTION}]] Do you need additional information to answer this question?"
