"""DOS RAG: the budget, and the order of the documents."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, RecordingRetriever, ScriptedModel

CHUNKS = [
    Document(
        f"Chunk {place} of {source}. " + "word " * 20,
        id=f"{source}{place}",
        metadata={"source": source, "start": place},
    )
    for source, place in (("b", 3), ("a", 2), ("b", 1), ("a", 1))
]


class TestContract(MethodTests):
    method = "dos_rag"
    replies = ["Ada Brenner"]


@pytest.mark.parametrize(
    ("options", "order"),
    [
        ({}, ["b1", "b3", "a1", "a2"]),
        ({"token_budget": 100}, ["b1", "b3", "a2"]),
        ({"token_budget": 1}, ["b3"]),
        ({"document_order": False}, ["b3", "a2", "b1", "a1"]),
        ({"document_order": False, "token_budget": 100, "order": "reversed"}, ["b1", "a2", "b3"]),
    ],
)
def test_the_best_passages_that_fit_stand_as_in_their_documents(options: dict[str, Any], order: list[str]) -> None:
    graph = build_graph("dos_rag", model=ScriptedModel(script=["Ada"]), **options)
    out = graph.invoke({"question": "Who?", "passages": CHUNKS})
    assert [passage.id for passage in out["passages"]] == order


@pytest.mark.parametrize(
    ("options", "k"),
    [({}, 100), ({"token_budget": 1500}, 30), ({"token_budget": 10}, 1), ({"token_budget": 1500, "k": 7}, 7)],
)
def test_a_passage_for_every_fifty_tokens_of_the_budget(options: dict[str, int], k: int) -> None:
    documents = [Document(f"{place}", id=str(place)) for place in range(200)]
    retriever = RecordingRetriever(documents=documents)
    graph = build_graph("dos_rag", model=ScriptedModel(script=["Ada"]), retriever=retriever, **options)
    assert len(graph.invoke({"question": "Who?"})["passages"]) == min(k, len(documents))
    graph = build_graph("dos_rag", model=ScriptedModel(script=["Ada"]), retriever=retriever)
    assert len(graph.invoke({"question": "Who?"}, context=options)["passages"]) == min(k, len(documents))


def test_the_released_prompt() -> None:
    model = ScriptedModel(script=["Ada"])
    build_graph("dos_rag", model=model, profile="paper").invoke(
        {"question": "Who?", "passages": ["It was\nAda.", "Or Bob."]}
    )
    system, human = [str(message.text) for message in model.calls[0].messages]
    assert system == "You are Question Answering Portal"
    assert human == (
        "[Start of Context]:\n\nIt was Ada. \n\nOr Bob.\n\n[End of Context]\n\n[Start of Question]:\n\nWho?\n\n[End of Question]"
        "\n\n[Instructions:]\n- Answer the question **only** based on the provided context.\n- Keep the answer **short and "
        "factual** (preferably between 1-20 words).\n- Do **not** provide explanations or additional details beyond what is "
        'necessary.\n- If the answer is **not explicitly stated** in the context, respond with: "Not found in context."'
    )
