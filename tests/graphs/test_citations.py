"""The option `citations`, the same in every method."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.scripted import ListRetriever, ScriptedChat, documents
from tests.unsure import UnsureChat

from ragweave import METHODS, build_graph
from ragweave.tools.citations import check_citations

QUESTION = {"question": "Who built the bridge at Alden?"}
TEXTS = (
    "The bridge at Alden was opened in 1932. It was painted grey.",
    "Ada Brenner built the bridge at Alden. She studied in Norhaven.",
)


def graph(name: str, **options: Any) -> Any:
    model = "extractive?similarity=lexical"
    return build_graph(
        name, model=model, retriever=ListRetriever(documents=documents(*TEXTS)), **options
    )


NEEDED = {"uncertainty_gate": {"gate": "variance"}}


@pytest.mark.parametrize("name", [one.name for one in METHODS.ours() if one.name != "flare"])
def test_every_method_cites_what_it_read(name: str) -> None:
    given = {**QUESTION, "passages": list(TEXTS)}
    out = graph(name, citations=True, **NEEDED.get(name, {})).invoke(given)
    assert out["citations"], out
    check_citations(out["answer"], out["passages"], out["citations"])
    assert any(one["quotes"] for one in out["citations"])


def test_flare_cites_too() -> None:
    model = UnsureChat(replies=["Ada Brenner built the bridge at Alden."])
    built = build_graph(
        "flare", model=model, retriever=ListRetriever(documents=documents(*TEXTS)), citations=True
    )
    out = built.invoke({**QUESTION, "answer_type": "long"})
    check_citations(out["answer"], out["passages"], out["citations"])
    assert out["citations"][0]["text"] == "Ada Brenner built the bridge at Alden."


def test_nothing_is_cited_unless_asked_for() -> None:
    assert graph("concat").invoke(QUESTION)["citations"] == []


def test_a_run_may_ask_for_citations() -> None:
    built = graph("concat")
    cited = built.invoke(QUESTION, context={"citations": True})["citations"]
    assert [quote["text"] for quote in cited[0]["quotes"]] == [
        "Ada Brenner built the bridge at Alden."
    ]
    assert asyncio.run(built.ainvoke(QUESTION, context={"citations": True}))["citations"] == cited


def test_a_filtered_passage_is_quoted_as_it_was_read() -> None:
    out = graph("filco", citations=True).invoke(QUESTION)
    check_citations(out["answer"], out["passages"], out["citations"])
    assert all("Norhaven" not in doc.page_content for doc in out["passages"])


def test_an_answer_without_passages_is_marked_unsupported() -> None:
    built = build_graph("direct", model=ScriptedChat(replies=["Karl Oster"]), citations=True)
    out = built.invoke(QUESTION)
    assert out["citations"] == [{"text": "Karl Oster", "start": 0, "end": 10, "quotes": []}]


def test_unknown_cites_nothing() -> None:
    built = build_graph("direct", model=ScriptedChat(replies=["Unknown"]), citations=True)
    assert built.invoke(QUESTION)["citations"] == []
