"""`profile="strategyqa"`: every method answers Yes or No."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.graphs import METHODS, build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel

QUESTION = "Was the bridge at Alden built by Ada Brenner?"
NOT_HERE = {"skr_knn", "adaptive_rag", "research", "exhaustive"}
"""Methods that need training questions or a trained router, one that writes a report, and one that counts."""
SAID = {
    "react": "Action 1: Finish[Yes]",
    "self_ask": "So the final answer is: Yes",
    "reason": "So the answer is Yes.",
    "grade": "Correct",
}


@pytest.mark.parametrize("method", [method.name for method in METHODS.ours() if method.name not in NOT_HERE])
def test_every_method_answers_yes_or_no(method: str) -> None:
    model = ScriptedModel(script=lambda call: SAID.get(call.node, "Yes"))
    arguments: dict[str, Any] = {"model": model, "retriever": RecordingRetriever(), "profile": "strategyqa"}
    out = build_graph(method, **arguments).invoke({"question": QUESTION})
    assert out["answer"] == "Yes"
    asked = " ".join(call.text for call in model.calls)
    assert "in as few words as it takes" not in asked


def test_the_input_may_ask_for_another_kind_of_answer() -> None:
    graph = build_graph("direct", model=ScriptedModel(script=["Ada Brenner"]), profile="strategyqa")
    assert graph.invoke({"question": "Who?", "answer_type": "short"})["answer"] == "Ada Brenner"
