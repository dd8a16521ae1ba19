"""The embedded default rates its context, in Python and where it is served."""

from __future__ import annotations

from typing import get_args

import pytest
from langchain_core.documents import Document
from langchain_core.messages import HumanMessage
from tests.scripted import OwnListRetriever

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.serving.studio import studio_graph
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.models.tasks import Task, TaskName, attach

BRIDGE = Document("The Old Bridge of Varn was opened in 1932.", id="bridge")


@pytest.mark.parametrize("name", get_args(TaskName))
def test_it_has_a_reply_to_whatever_a_model_is_asked_for(name: TaskName) -> None:
    task: Task = {"task": name, "question": "When was the Old Bridge opened?", "passages": []}
    said = ExtractiveChat(similarity="lexical").invoke([attach(HumanMessage("?"), task)])
    assert isinstance(said.content, str)


@pytest.mark.parametrize(
    ("question", "answer", "calls"),
    [("When was the Old Bridge of Varn opened?", "1932", 2), ("Who is Ada?", "Unknown", 1)],
)
def test_it_abstains_where_the_passages_hold_too_little(
    question: str, answer: str, calls: int
) -> None:
    graph = build_graph(
        "concat",
        model="extractive?similarity=lexical",
        retriever=OwnListRetriever(documents=[BRIDGE]),
        sufficient_context=True,
    )
    result = graph.invoke({"question": question})
    assert (result["answer"], result["usage"]["calls"]) == (answer, calls)


def test_a_served_method_rates_its_context() -> None:
    graph = studio_graph("concat", {"sufficient_context": True})
    assert graph.invoke({"question": "What does BlendFilter blend?"})["usage"]["calls"] == 2


def test_a_gate_that_the_model_cannot_serve_says_why() -> None:
    with pytest.raises(UsageError, match="probability of each token"):
        studio_graph("uncertainty_gate")
