"""The uncertainty gate: log-probabilities in, a decision whether the draft is enough."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from ragweave import build_graph
from ragweave.errors import ModelError, UsageError
from ragweave.testing import CARDS, RecordingRetriever, ScriptedModel, unsure
from ragweave.tools.models.uncertainty import gate_settings, uncertainty


def reply(*places: list[float]) -> AIMessage:
    """Return a reply of one token a place, whose candidates have these probabilities."""
    content = [
        {
            "token": "x",
            "logprob": math.log(one[0]),
            "bytes": None,
            "top_logprobs": [{"token": "y", "logprob": math.log(p)} for p in one],
        }
        for one in places
    ]
    return AIMessage("x" * len(places), response_metadata={"logprobs": {"content": content}})


def test_the_measures_are_what_they_say() -> None:
    said = reply([0.5, 0.25], [1.0])
    assert uncertainty(said, "mean") == pytest.approx(math.log(2) / 2)
    assert uncertainty(said, "least") == pytest.approx(math.log(2))
    assert uncertainty(said, "margin") == pytest.approx(0.25)
    shares = (2 / 3, 1 / 3)
    entropy = -sum(one * math.log(one) for one in shares) / 2
    assert uncertainty(said, "entropy") == pytest.approx(entropy)


def test_what_a_reply_lacks_is_said() -> None:
    assert uncertainty(AIMessage(""), "mean") is None
    with pytest.raises(ModelError, match="ignores logprobs"):
        uncertainty(AIMessage("Ada"), "mean")
    bare = AIMessage("x", response_metadata={"logprobs": {"content": [{"logprob": -0.1}]}})
    with pytest.raises(ModelError, match="ignores top_logprobs"):
        uncertainty(bare, "entropy")
    assert gate_settings("margin") == {"logprobs": True, "top_logprobs": 5}


def graph(judged: AIMessage, **options: Any) -> Any:
    said = {"draft": "Ada.", "judge": judged, "direct": "Ada", "rewrite": "", "answer": "Karl"}
    return build_graph(
        "slimplm",
        model=ScriptedModel(script=said),
        retriever=RecordingRetriever(documents=list(CARDS)),
        route="uncertainty",
        **options,
    )


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({}, "Ada"),
        ({"gate": "least"}, "Karl"),
        ({"gate": "least", "route_threshold": 5.0}, "Ada"),
        ({"route_threshold": 0.1}, "Karl"),
    ],
)
def test_the_gate_retrieves_where_the_model_is_uncertain(options: Any, answer: str) -> None:
    judged = unsure("Ada built it and nobody else did so here", Ada=0.1)
    out = graph(judged, **options).invoke({"question": "Who built the bridge at Alden?"})
    assert out["answer"] == answer
    assert bool(out["usage"]["retrievals"]) is (answer == "Karl")


def test_an_empty_reply_retrieves_and_a_model_without_probabilities_is_refused() -> None:
    assert graph(AIMessage("")).invoke({"question": "Who?"})["usage"]["retrievals"] == 1
    with pytest.raises(UsageError, match="route=uncertainty needs the probability of each token"):
        build_graph("slimplm", model="extractive?similarity=lexical", route="uncertainty")
