"""MAIN-RAG: three ways to judge, and the adaptive bar."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage

from ragweave.graphs import build_graph
from ragweave.testing import CARDS, MethodTests, ModelCall, RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"


def judged(call: ModelCall) -> Any:
    """Yes is the likelier, the better the passage answers."""
    if call.node != "judge":
        return "Ada Brenner" if "Ada Brenner" in call.text else "Unknown"
    chance = 0.9 if "built by Ada" in call.text else 0.5 if "runs under" in call.text else 0.2
    listed = [{"token": "Yes", "logprob": math.log(chance)}, {"token": " no", "logprob": math.log(1 - chance)}]
    return AIMessage("Yes", response_metadata={"logprobs": {"content": [{**listed[0], "top_logprobs": listed}]}})


class TestContract(MethodTests):
    method = "main_rag"

    def reply(self, call: ModelCall) -> Any:
        return judged(call)


class Decides(BaseDecisionModel):
    """Judges by the words of the passage."""

    @property
    def _provider(self) -> str:
        return "test"

    def _classify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        assert state["draft"]
        chance = 0.9 if "built by Ada" in str(state) else 0.2
        answers = {name: {"type": "noul", "noul": chance} for name in questions}
        return ClassifierResponse.model_validate({"model": self.model, "answers": answers})


def run(n: float = 0.0, **arguments: Any) -> tuple[list[str], list[ModelCall]]:
    model = ScriptedModel(script=judged)
    given = {"model": model, "retriever": RecordingRetriever(documents=list(CARDS[:4])), "n": n, **arguments}
    out = build_graph("main_rag", **given).invoke({"question": QUESTION})
    assert out["answer"] == "Ada Brenner"
    return [str(passage.id) for passage in out["passages"]], model.calls


@pytest.mark.parametrize(("n", "count"), [(0.0, 2), (1.0, 4), (-1.0, 1)])
def test_passages_at_the_bar_are_read_the_best_first(n: float, count: int) -> None:
    read, calls = run(n)
    assert (len(read), read[:2]) == (count, ["doc0", "doc1"][:count])
    assert [call.node for call in calls].count("judge") == 4
    assert calls[-1].text.count("<passage ") == count


def test_answers_from_each_passage_count_where_a_limit_refuses_the_last_call() -> None:
    assert len(run(max_calls=8)[1]) == 8


def test_the_judge_is_shown_the_answer_that_a_passage_gave() -> None:
    _, calls = run()
    asked = next(call for call in calls if call.node == "judge" and "built by Ada" in call.text)
    assert "Draft answer: Ada Brenner" in asked.text
    assert (asked.settings["logprobs"], asked.settings["max_tokens"]) == (True, 1)


def test_a_decision_model_judges() -> None:
    read, calls = run(judge=Decides(model="words"))
    assert (read, {call.node for call in calls}) == (["doc0"], {"predict", "final"})


def test_a_judge_without_log_probabilities_states_its_confidence() -> None:
    class Plain(BaseChatModel):
        inner: Any

        @property
        def _llm_type(self) -> str:
            return "plain"

        def _generate(self, messages: Any, *args: Any, **given: Any) -> Any:
            return self.inner._generate(messages, *args, **given)

    def say(call: ModelCall) -> str:
        helps = "built by Ada" in call.text
        return json.dumps({"answer": "Yes" if helps else "No", "confidence": "90%"})

    judge = ScriptedModel(script=say)
    read, _ = run(judge=Plain(inner=judge))
    assert read == ["doc0"]
    assert all("how sure you are" in call.text for call in judge.calls)


def test_a_judge_that_says_neither_keeps_every_passage() -> None:
    read, _ = run(judge=ScriptedModel(script=["Perhaps"]))
    assert len(read) == 4
