"""The embedded default answers questions over the bundled articles."""

from __future__ import annotations

import pytest

from ragweave import build_graph
from ragweave.corpus import corpus_documents
from ragweave.tools.retrieval import Bm25Retriever


@pytest.mark.parametrize(
    ("question", "holds"),
    [
        ("What does BlendFilter blend?", "the original question, an externally augmented query"),
        ("What does the proxy model of SlimPLM decide?", "when to retrieve"),
        ("Which measure suits dialogue?", "LEXICAL"),
        ("Who wrote the score of the opera Aida?", "Unknown"),
    ],
)
def test_answers(question: str, holds: str) -> None:
    retriever = Bm25Retriever.from_documents(corpus_documents())
    for model in ("extractive?similarity=lexical", "extractive"):
        assert (
            holds in build_graph("concat_pf", model=model, retriever=retriever).invoke({"question": question})["answer"]
        )
