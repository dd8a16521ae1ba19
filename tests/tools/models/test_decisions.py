"""Decision models: from log-probabilities, and in the roles of methods."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from langchain_core.decisions import BaseDecisionModel, Choice, ClassifierResponse, Noul, Score
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field
from tests.openai_server import OpenAIServer, Reply

from ragweave.errors import ModelError, UsageError
from ragweave.graphs import build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel
from ragweave.testing.scripted import CARDS
from ragweave.tools.models.decisions import LogprobDecisions, platt
from ragweave.tools.providers import chat_model

HELPS = Noul(instructions="Does the passage answer the question?")


class Chances(BaseChatModel):
    """A chat model whose first token has these probabilities."""

    chances: dict[str, float] = Field(default_factory=dict)
    logprobs: bool = False
    top_logprobs: int = 0
    max_tokens: int = 100
    prompts: list[str] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "chances"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
        self.prompts.append(messages[-1].text)
        assert (self.logprobs, self.top_logprobs, self.max_tokens) == (True, 20, 1)
        top = [{"token": token, "logprob": math.log(chance)} for token, chance in self.chances.items()]
        metadata = {"logprobs": {"content": [{"token": "x", "logprob": -1.0, "top_logprobs": top}]}} if top else {}
        usage = {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
        message = AIMessage("x", response_metadata=metadata, usage_metadata=usage)
        return ChatResult(generations=[ChatGeneration(message=message)])


class Yes(BaseDecisionModel):
    """Says yes to what contains a word."""

    model: str = "yes"
    word: str = "Alden"
    states: list[Any] = Field(default_factory=list)

    @property
    def _provider(self) -> str:
        return "test"

    def _classify(self, state: Any, questions: Any) -> ClassifierResponse:
        self.states.append(state)
        texts = " ".join(map(str, (state.get("passage"), state.get("passages"), state.get("draft"))))
        answers: dict[str, Any] = {}
        for name, question in questions.items():
            labels = list(question.criteria) if isinstance(question, Choice) else []
            chosen = (
                {"type": "choice", "choice": labels[0], "probabilities": {labels[0]: 1.0}, "confidence": 1.0}
                if labels
                else {}
            )
            answers[name] = chosen or {"type": "noul", "noul": 0.9 if self.word in texts else 0.1}
        return ClassifierResponse.model_validate({"model": self.model, "answers": answers})


def asked(model: LogprobDecisions, **questions: Any) -> ClassifierResponse:
    return model.invoke({"state": {"question": "Who?", "passage": "Ada. <|im_end|>"}, "questions": questions})


def test_the_first_token_decides() -> None:
    chat = Chances(chances={"Yes": 0.4, " yes": 0.2, "No": 0.2, "Maybe": 0.2})
    model = LogprobDecisions(chat=chat)
    answers = asked(model, helps=HELPS)
    assert answers.nouls["helps"].noul == pytest.approx(0.75)
    assert answers.usage == {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8}
    (prompt,) = chat.prompts
    assert prompt.index("Question: Who?") < prompt.index("Passage: Ada.") < prompt.index("Does the passage")
    assert "<|im_end|>" not in prompt
    request: Any = {"state": "Ada.", "questions": {"helps": HELPS}}
    assert asyncio.run(model.ainvoke(request)).nouls["helps"].noul == pytest.approx(0.75)


def test_labels_are_letters() -> None:
    model = LogprobDecisions(chat=Chances(chances={"A": 0.1, "B": 0.3, "C": 0.6}))
    label = Choice(instructions="Which?", criteria={"none": None, "one": "One search.", "several": "More."})
    answers = asked(model, label=label)
    assert answers.choices["label"].choice == "several"
    assert answers.choices["label"].probabilities["one"] == pytest.approx(0.3)
    with pytest.raises(UsageError, match="answer yes or no, or name one of 20 labels"):
        asked(model, level=Score(instructions="How much?", criteria=["nothing", "some", "all"]))


def test_a_model_without_log_probabilities_is_named() -> None:
    with pytest.raises(ModelError, match="the model reports none"):
        asked(LogprobDecisions(chat=Chances()), helps=HELPS)


def test_two_parameters_calibrate() -> None:
    logits = [at / 10 for at in range(-50, 50)]
    labels = [logit > 2 or (logit > 0 and at % 2 == 0) for at, logit in enumerate(logits)]
    slope, intercept = platt(logits, labels)
    assert slope > 1
    assert 0.5 < -intercept / slope < 1.5  # where labels turn
    with pytest.raises(UsageError, match="both labels"):
        platt([1.0], [True])
    sure = Chances(chances={"Yes": 0.99, "No": 0.01})
    rows: Any = [("a", HELPS, at % 2 == 0) for at in range(40)]
    calibrated = LogprobDecisions(chat=sure).calibrated(rows)
    assert asked(calibrated, helps=HELPS).nouls["helps"].noul == pytest.approx(0.5, abs=0.02)


@pytest.mark.loopback
def test_a_server_decides() -> None:
    with OpenAIServer([Reply("Yes")]) as server:
        model: Any = chat_model(f"logprobs:openai:m?base_url={server.base_url}")
        assert asked(model, helps=HELPS).nouls["helps"].noul == pytest.approx(math.exp(-0.1))
        body = server.requests[0].body
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 1)


def test_a_spec_names_one() -> None:
    model: Any = chat_model("logprobs:openai:m?base_url=http://127.0.0.1:1/v1&slope=2&threshold=0.7")
    assert (model.slope, model.threshold, model.model) == (2.0, 0.7, "m")
    assert model.chat.openai_api_base == "http://127.0.0.1:1/v1"


def run(name: str, **options: Any) -> tuple[dict[str, Any], ScriptedModel]:
    model = ScriptedModel(script=lambda _call: "Ada")
    graph = build_graph(name, model=model, retriever=RecordingRetriever(), **options)
    return graph.invoke({"question": "Who built the bridge at Alden?"}), model


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("crag", {"judge": Yes(), "selector": Yes()}),
        ("self_eval", {"judge": Yes(), "decided_by": "judge"}),
        ("slimplm", {"judge": Yes(), "rewrite": False}),
        ("slimplm", {"router": Yes(), "route": "classifier", "rewrite": False}),
        ("adaptive_rag", {"router": Yes()}),
        ("blendfilter", {"selector": Yes()}),
        ("filco", {"selector": Yes(), "filter": "llm"}),
        ("concat", {"judge": Yes(), "sufficient_context": True}),
    ],
)
def test_a_decision_model_plays_a_role(method: str, options: dict[str, Any]) -> None:
    out, model = run(method, **options)
    assert out["answer"]
    decided = {
        role: tokens["calls"]
        for role, tokens in out["usage"]["by_role"].items()
        if role in ("judge", "selector", "router")
    }
    assert sum(decided.values()) >= 1
    assert not {call.node for call in model.calls} & {
        "grade",
        "judge",
        "refine",
        "choose",
        "check",
        "topic",
        "classify",
        "need",
    }


def test_passages_are_graded_and_chosen_one_by_one() -> None:
    judge, chooser = Yes(), Yes(word="built by Ada")
    out, _ = run("crag", judge=judge, selector=chooser, k=3, second_search=False)
    assert {type(state["passage"]) for state in judge.states} == {str}
    assert len(judge.states) == 3
    assert out["usage"]["by_role"]["selector"]["calls"] == len(chooser.states)
    assert [passage.page_content for passage in out["passages"]] == [CARDS[0].page_content]


def test_a_decision_model_writes_nothing() -> None:
    with pytest.raises(UsageError, match="Yes decides and can't write: the role 'generator' needs a chat model"):
        build_graph("concat", model=Yes())  # type: ignore[arg-type]
