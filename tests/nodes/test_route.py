"""The uncertainty gate: log-probabilities in, a decision whether the draft is enough."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from tests.scripted import ScriptedChat

from ragweave import build_graph
from ragweave.errors import ModelError, UsageError
from ragweave.testing import CARDS, RecordingRetriever, ScriptedModel, unsure
from ragweave.tools.models.uncertainty import disagreement, gate_settings, uncertainty

RECORDED = Path(__file__).parents[1] / "recorded" / "gates.jsonl"


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
    with pytest.raises(UsageError, match="gate=mean needs the probability of each token"):
        build_graph("slimplm", model="extractive?similarity=lexical", route="uncertainty")


def test_where_nothing_is_gated_no_probabilities_are_needed() -> None:
    model = "extractive?similarity=lexical"
    for rewrite in (True, False):
        ungated = build_graph(
            "slimplm", model=model, route="uncertainty", question_judge=False, rewrite=rewrite
        )
        given = {"question": "Who built it?", "passages": ["Ada built it."]}
        assert ungated.invoke(given)["status"] == "answered"


def test_samples_are_compared_word_by_word() -> None:
    said = ["The Danube.", "the Danube", "the Rhine it is"]
    assert disagreement(said, "variance") == pytest.approx((0 + 1 / 3 + 1 / 3 + 1 / 3) / 4)
    alike = (1 + 2 * 1 / 6 + 2 * 1 / 6) / 3
    assert disagreement(said, "dissimilarity") == pytest.approx(1 - alike)
    assert disagreement(["", " ?"], "variance") is None
    with pytest.raises(ValueError, match="1 samples"):
        disagreement(["once"], "variance")
    with pytest.raises(ValueError, match="several samples"):
        uncertainty(AIMessage("Ada"), "variance")


@given(st.lists(st.text(alphabet="ab ", max_size=8), min_size=2, max_size=5), st.randoms())
def test_disagreement_is_bounded_and_knows_no_order(samples: list[str], random: Any) -> None:
    drawn = random.sample(samples, len(samples))
    for gate, most in (("variance", 1 - 1 / len(samples)), ("dissimilarity", 1.0)):
        found = disagreement(samples, gate)
        if found is None:
            assert not "".join(samples).strip()
            continue
        assert -1e-9 <= found <= most + 1e-9
        assert disagreement(drawn, gate) == pytest.approx(found)
        assert disagreement([samples[0] or "a"] * 3, gate) in (None, pytest.approx(0))


def asked_by_samples(*said: str, **options: Any) -> Any:
    """Ask a model without log-probabilities, which says these drafts and then answers."""
    model = ScriptedChat(replies=[*said, "Ada"])
    built = build_graph(
        "uncertainty_gate",
        model=model,
        retriever=RecordingRetriever(documents=list(CARDS)),
        **options,
    )
    return built.invoke({"question": "Who built the bridge at Alden?"}), model


@pytest.mark.parametrize("gate", ["variance", "dissimilarity"])
def test_samples_that_agree_need_no_retrieval_and_no_log_probabilities(gate: str) -> None:
    out, _ = asked_by_samples("Ada", "ada.", "Ada", gate=gate)
    assert (out["usage"]["calls"], out["usage"]["retrievals"]) == (4, 0)
    out, _ = asked_by_samples("Ada Brenner", "Karl", "some engineer", gate=gate)
    assert (out["usage"]["calls"], out["usage"]["retrievals"]) == (4, 1)


@pytest.mark.parametrize("gate", ["variance", "dissimilarity"])
def test_thoughts_are_no_part_of_a_draft(gate: str) -> None:
    thoughts = ("It may be Karl.", "Who was it?", "Somebody from Norhaven, I think.")
    drafts = [f"<think>{one}</think>Ada" for one in thoughts]
    assert asked_by_samples(*drafts, gate=gate)[0]["usage"]["retrievals"] == 0
    drafts = [f"<think>{one}</think>Unknown" for one in thoughts]
    assert asked_by_samples(*drafts, gate=gate)[0]["usage"]["retrievals"] == 1


FOOLED = [("What is the name of the ferry at Tarn?", "variance")]
"""Where the model agreed with itself on a name that it had made up."""


def test_a_real_models_drafts_agree_on_what_it_knows() -> None:
    """Drafts of Qwen2.5-Coder-0.5B (`tests/recorded/README.md`), three a gate."""
    wrong = []
    for line in RECORDED.read_text("utf-8").splitlines():
        one = json.loads(line)
        for gate, drafts in one["drafts"].items():
            out, _ = asked_by_samples(*drafts, gate=gate)
            if bool(out["usage"]["retrievals"]) is one["knows"][gate]:
                wrong.append((one["question"], gate))
    assert wrong == FOOLED


def test_drafts_that_agree_on_unknown_retrieve() -> None:
    out, _ = asked_by_samples("Unknown", "Unknown", "Ada", gate="variance", threshold=1.0)
    assert out["usage"]["retrievals"] == 1


def test_samples_are_warm_and_short_and_told_apart() -> None:
    _, model = asked_by_samples("Ada", "Ada", "Ada", gate="variance", gate_tokens=9)
    drafts = [one.settings for one in model.seen[:3]]
    assert {(one["temperature"], one["max_tokens"]) for one in drafts} == {(0.7, 9)}
    assert not any("logprobs" in one for one in drafts)
