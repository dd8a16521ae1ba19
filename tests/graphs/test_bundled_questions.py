"""The embedded default answers real questions over the bundled articles."""

from __future__ import annotations

import pytest

from ragweave import build_graph
from ragweave.corpus import corpus_documents
from ragweave.graphs.frame import CompiledGraph
from ragweave.tools.retrieval import Bm25Retriever


@pytest.fixture(scope="module")
def graph() -> CompiledGraph:
    retriever = Bm25Retriever.from_documents(corpus_documents())
    return build_graph("concat_pf", model="extractive?similarity=lexical", retriever=retriever)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What does BlendFilter blend?", "BlendFilter blends the original question, an externally augmented query"),
        ("Which measure suits fact verification?", "CXMI"),
        ("Which measure suits dialogue?", "LEXICAL"),
        ("How many words does a passage have by default?", "Passage length is the number of words that a knowledge base puts into one passage"),
        ("Who wrote the score of the opera Aida?", "Unknown"),
    ],
)
def test_answers(graph: CompiledGraph, question: str, answer: str) -> None:
    out = graph.invoke({"question": question})
    assert out["answer"].startswith(answer)
    assert out["status"] == ("unknown" if answer == "Unknown" else "answered")
