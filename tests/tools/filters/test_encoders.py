"""The context filter by an encoder: RECOMP's nearest sentences."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.tools.filters import RecompFilter
from ragweave.tools.retrieval.onnx_embedding import onnx_available

PASSAGES = [
    Document("Rome is old. Hamlet was written by William Shakespeare.", id="a"),
    Document("A cat saw a bird. The river is green.", id="b"),
]
QUESTION = "Who wrote Hamlet?"
HAMLET = "Hamlet was written by William Shakespeare."


class Shared:
    """Scores a pair by the words that both have."""

    def predict(self, pairs: list[tuple[str, str]], /) -> list[float]:
        return [
            len(set(q.lower().split("?")[0].split()) & set(t.lower().split())) for q, t in pairs
        ]


def texts(spans: Any) -> list[str]:
    return [one["text"] for one in spans]


def test_recomp_keeps_the_nearest_sentences() -> None:
    assert texts(RecompFilter(Shared()).keep(QUESTION, PASSAGES)) == [HAMLET]
    assert len(RecompFilter(Shared(), top=None).keep(QUESTION, PASSAGES)) == 4
    assert texts(RecompFilter(Shared(), threshold=0.5, top=3).keep(QUESTION, PASSAGES)) == [HAMLET]
    assert RecompFilter(Shared(), threshold=9).keep(QUESTION, PASSAGES) == []
    assert RecompFilter(Shared()).keep(QUESTION, []) == []
    with pytest.raises(UsageError, match="top must be at least 1"):
        RecompFilter(Shared(), top=0)


@pytest.mark.skipif(not onnx_available(), reason='needs pip install "ragweave[offline]"')
@pytest.mark.parametrize(
    ("options", "spans"),
    [({"top": 1}, 1), ({"encoder": "minilm"}, 2), ({"top": None}, 4), ({}, 2)],
)
def test_recomp_with_the_packaged_model_in_filco(options: dict[str, Any], spans: int) -> None:
    model = "extractive?similarity=lexical"
    graph = build_graph("filco", model=model, filter="recomp", **options)
    out = graph.invoke({"question": QUESTION, "passages": PASSAGES})
    assert sum(len(doc.metadata["spans"]) for doc in out["passages"]) == spans
    assert any(HAMLET in doc.page_content for doc in out["passages"])
