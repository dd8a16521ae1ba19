"""The one-shot prompts of Liu et al.: pruning and summary."""

from __future__ import annotations

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"
SAID = "Passage 1 says it. So the answer is Ada Brenner."


class TestPruning(MethodTests):
    method = "pruning"
    replies = [SAID]


class TestSummary(MethodTests):
    method = "summary"
    replies = [SAID]


@pytest.mark.parametrize("method", ["pruning", "summary"])
def test_the_answer_of_the_example_is_a_copy_unless_a_passage_says_it(method: str) -> None:
    model = ScriptedModel(script=["Passage 2 can answer. So the answer is 1891.", "1931"])
    graph = build_graph(method, model=model)
    out = graph.invoke({"question": "When was it built?", "passages": ["It was built in 1931."]})
    assert (out["answer"], len(model.calls)) == ("1931", 2)
    out = graph.invoke({"question": "When was it lit?", "passages": ["It was lit in 1891."]})
    assert len(model.calls) == 3
    model = ScriptedModel(script=["Passage 2 can answer. So the answer is 1891."])
    out = build_graph(method, model=model).invoke({"question": "When was it lit?", "passages": ["It was lit in 1891."]})
    assert (out["answer"], len(model.calls)) == ("1891", 1)


@pytest.mark.parametrize("method", ["pruning", "summary"])
def test_without_passages_nothing_is_asked(method: str) -> None:
    model = ScriptedModel(script=[SAID])
    out = build_graph(method, model=model, retriever=RecordingRetriever(documents=[])).invoke({"question": QUESTION})
    assert (out["status"], model.calls) == ("unknown", [])


def test_the_papers_clause() -> None:
    for profile, clause in (("ours", "If you don't know"), ("paper", "If don't know")):
        model = ScriptedModel(script=[SAID])
        graph = build_graph("pruning", model=model, profile=profile)
        graph.invoke({"question": QUESTION, "passages": ["Ada Brenner built it."]})
        example, _, last = [str(message.text) for message in model.calls[0].messages[1:]]
        assert example.endswith(f"{clause} the answer, just say Unknown.")
        assert last.endswith(f"{clause} the answer, just say Unknown.")
