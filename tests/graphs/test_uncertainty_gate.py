"""The uncertainty gate: a short draft decides whether to retrieve."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel, unsure

QUESTION = "Who built the bridge at Alden?"
DOUBT = unsure("Bob built it and nobody else", Bob=0.5)


def run(*replies: str | AIMessage, **options: Any) -> tuple[dict[str, Any], Any, Any]:
    model, retriever = ScriptedModel(script=[*replies, "Ada"]), RecordingRetriever()
    graph = build_graph("uncertainty_gate", model=model, retriever=retriever, **options)
    return graph.invoke({"question": QUESTION}), model.calls, retriever.searches


@pytest.mark.parametrize(
    ("draft", "options", "searched"),
    [
        ("Ada built it", {}, 0),
        (DOUBT, {}, 0),
        (DOUBT, {"threshold": 0.1}, 1),
        (DOUBT, {"gate": "least"}, 0),
        (DOUBT, {"gate": "least", "threshold": 0.5}, 1),
        ("Unknown", {}, 1),
        ("", {}, 1),
    ],
)
def test_an_uncertain_draft_retrieves(draft: Any, options: dict[str, Any], searched: int) -> None:
    out, calls, searches = run(draft, **options)
    assert (out["answer"], len(calls), len(searches)) == ("Ada", 2, searched)
    assert calls[0].settings["max_tokens"] == 20
    assert "<passage" not in calls[0].text


@pytest.mark.parametrize(
    ("drafts", "searched"), [(("Ada", "ada.", "Ada"), 0), (("Ada Brenner", "Karl", "some engineer"), 1)]
)
def test_drafts_that_differ_retrieve(drafts: tuple[str, ...], searched: int) -> None:
    _, calls, searches = run(*drafts, gate="variance")
    assert (len(calls), len(searches)) == (4, searched)
    assert {(call.settings["temperature"], call.settings.get("logprobs")) for call in calls[:3]} == {(0.7, None)}


def test_what_was_certain_and_is_unknown_is_searched_for() -> None:
    out, calls, searches = run("Ada", "Unknown")
    assert (out["answer"], len(calls), len(searches)) == ("Ada", 3, 1)


def test_the_proxys_draft_may_be_measured() -> None:
    proxy = ScriptedModel(script=["Ada"], role="proxy")
    _, calls, _ = run(proxy=proxy, gated_by="proxy")
    assert (len(proxy.calls), len(calls)) == (1, 1)


class Plain(BaseChatModel):
    """A model without a setting of that name: log-probabilities are bound to it."""

    gives: bool = True

    @property
    def _llm_type(self) -> str:
        return "plain"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **given: Any) -> ChatResult:
        reply = unsure("Ada") if given.get("logprobs") and self.gives else AIMessage("Ada")
        return ChatResult(generations=[ChatGeneration(message=reply)])


def test_any_model_is_asked_for_log_probabilities() -> None:
    given = {"question": QUESTION}
    assert build_graph("uncertainty_gate", model=Plain()).invoke(given)["answer"] == "Ada"
    with pytest.raises(UsageError, match="the model reports none: use openai:NAME"):
        build_graph("uncertainty_gate", model=Plain(gives=False)).invoke(given)
