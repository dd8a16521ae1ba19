"""ALCE's citation recall and precision, against values worked out by hand."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from ragweave.datasets import Question
from ragweave.evaluation.metrics import citation_metrics, citation_precision, citation_recall

QUESTION = Question(id="1", question="When?", answers=("In 1932.",), scoring="long")


def holds(premise: str, hypothesis: str) -> bool:
    """Entailment of bags of letters: every letter of the statement stands in the premise."""
    return set(hypothesis) <= set(premise)


def test_recall_counts_statements_that_all_their_passages_entail() -> None:
    statements = [("ab", ["a", "b"]), ("c", ["d"]), ("e", []), ("f", ["xf"])]
    assert citation_recall(statements, holds) == pytest.approx(2 / 4)


def test_precision_counts_citations_that_are_needed() -> None:
    # "ab" needs both; of "c" the second is beside the point, the first alone supports;
    # "e" is not supported, so that both its citations are irrelevant.
    statements = [("ab", ["a", "b"]), ("c", ["c", "x"]), ("e", ["y", "z"])]
    assert citation_precision(statements, holds) == pytest.approx(3 / 6)
    assert citation_precision([("a", [])], holds) == 0.0


def test_two_that_each_support_alone_are_both_relevant() -> None:
    assert citation_precision([("a", ["a", "ab"])], holds) == 1.0


def test_as_metrics_they_read_a_graphs_output() -> None:
    quote = {"passage": "p", "start": 0, "end": 1, "text": "q", "score": 1.0}
    state = {
        "answer": "Opened in 1932.",
        "status": "answered",
        "passages": [Document("q r", id="p", metadata={"title": "Bridge"})],
        "citations": [{"text": "Opened in 1932.", "start": 0, "end": 15, "quotes": [quote, quote]}],
    }
    asked: list[tuple[str, str]] = []

    def entails(premise: str, hypothesis: str) -> bool:
        asked.append((premise, hypothesis))
        return True

    recall, precision = citation_metrics(entails)
    assert recall.compute(QUESTION, state) == precision.compute(QUESTION, state) == 1.0
    assert asked[0] == ("Title: Bridge\nq r", "Opened in 1932.")
    for without in ({**state, "citations": []}, {**state, "status": "unknown"}):
        assert recall.compute(QUESTION, without) is None
        assert precision.compute(QUESTION, without) is None
