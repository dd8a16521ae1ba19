"""SlimPLM: who decides from the draft, what is searched, and what the judge and the rewriter are asked."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave.graphs import build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel, unsure

QUESTION = "Who built the bridge at Alden?"
REWRITE = "<Claim> Ada built it. <Query> Ada Alden bridge <Claim> Bridges are good. <Query> good bridges"
SAID = {"draft": "Ada.", "judge": "<Known(False)>", "judge_claim": "<Known(True)>", "rewrite": REWRITE, "answer": "Ada"}


def run(script: dict[str, Any], **options: Any) -> tuple[dict[str, Any], ScriptedModel, list[str]]:
    model, retriever = ScriptedModel(script={**SAID, "direct": "Ada", **script}), RecordingRetriever()
    given = {"retriever": retriever, **options}
    *_, state = build_graph("slimplm", model=model, **given).stream({"question": QUESTION}, stream_mode="values")
    return state, model, retriever.searches


def asked(model: ScriptedModel, node: str) -> list[Any]:
    return [call for call in model.calls if call.node == node]


@pytest.mark.parametrize(
    ("gate", "options", "searched"),
    [
        ("Ada built it", {}, 0),
        (unsure("Bob built it", Bob=0.1), {}, 1),
        (unsure("Bob built it", Bob=0.1), {"route_threshold": 2.0}, 0),
        ("Ada built it", {"gate": "variance"}, 0),
        ("Unknown", {}, 1),
    ],
)
def test_the_proxys_uncertainty_decides(gate: Any, options: dict[str, Any], searched: int) -> None:
    _, model, searches = run({"gate": gate}, route="uncertainty", **options)
    assert searches == [QUESTION][:searched]
    assert not asked(model, "judge")
    assert len(asked(model, "gate")) == (3 if options.get("gate") == "variance" else 1)


def test_a_router_or_else_the_proxy_classifies() -> None:
    _, model, searches = run({"classify": "none"}, route="classifier")
    assert (searches, len(asked(model, "classify"))) == ([], 1)
    assert run({"classify": "several"}, route="classifier")[2]


def test_the_released_prompts() -> None:
    _, model, _ = run({}, proxy_profile="released")
    assert asked(model, "judge")[0].text == (
        "You are a helpful assistant. Your task is to parse user input into structured formats according to the coarse "
        f"answer. Current datatime is 2023-12-20 9:47:28\nCourse answer: ((Ada.))\nQuestion: (({QUESTION}))"
    )
    assert asked(model, "rewrite")[0].last == f"Course answer: ((Ada.))\nQuestion: (({QUESTION}))"


def test_released_models_are_not_held_to_a_form() -> None:
    model = ScriptedModel(script={**SAID, "direct": "Ada"}, profile={"structured_output": True})
    out = build_graph("slimplm", model=model, retriever=RecordingRetriever(), proxy_profile="released").invoke(
        {"question": QUESTION}
    )
    assert (out["answer"], {call.form for call in model.calls}) == ("Ada", {""})


def test_a_draft_that_declines_is_judged_in_the_papers_words_alone() -> None:
    script = {"draft": "I don't know."}
    assert not asked(run(script)[1], "judge")
    for options in ({"profile": "paper"}, {"proxy_profile": "released"}):
        _, model, _ = run(script, **options)
        assert asked(model, "judge")
        assert "I don't know." in asked(model, "rewrite")[0].last


def test_other_proxies_are_asked_for_explanations() -> None:
    _, model, _ = run({}, proxy_explains=True)
    expected = f"Please answer the question professionally and provide explanations. Question(({QUESTION}))"
    assert asked(model, "draft")[0].text == expected


class Pages(RecordingRetriever):
    """Finds the paragraphs of two pages."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int = 5) -> list[Document]:
        return [Document(f"Fact {n}.", metadata={"title": "AABABB"[n]}) for n in range(min(k, 6))]


@pytest.mark.parametrize("method", ["slimplm", "direct"])
def test_every_row_of_the_papers_table_reads_the_pages_in_turn(method: str) -> None:
    script = ScriptedModel(script={**SAID, "direct": "Ada"})
    options = {"retrieve": True} if method == "direct" else {"rewrite": False}
    graph = build_graph(method, model=script, retriever=Pages(), profile="slimplm", **options)
    graph.invoke({"question": QUESTION})
    system, human = script.calls[-1].messages
    assert str(system.text).endswith(
        "The reference is delimited by triple brackets [[[]]]. The question is delimited by triple parentheses ((())). "
        "You should include as many possible answers as you can."
    )
    facts = "\n".join(f"Fact {number}." for number in (0, 2, 1, 4, 3, 5))
    assert human.text == f"Reference: [[[{facts}]]], question: ((({QUESTION})))"
