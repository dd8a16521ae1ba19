"""Astute RAG: passages from memory, consolidation, and the paper's prompts."""

from __future__ import annotations

from typing import Any

from ragweave import build_graph
from ragweave.testing import CARDS, MethodTests, ModelCall, RecordingRetriever, ScriptedModel

ASK = {"question": "Who built the bridge at Alden?"}
REPLIES = {
    "recall": "The bridge at Alden was built in 1931.",
    "consolidate": "Passages 1 and 11 agree.",
    "answer": "They agree. <ANSWER>Ada Brenner</ANSWER>",
}


def run(options: dict[str, Any] | None = None, **replies: str) -> tuple[dict[str, Any], list[ModelCall]]:
    model = ScriptedModel(script={**REPLIES, **replies})
    out = build_graph("astute", model=model, retriever=RecordingRetriever(), **(options or {})).invoke(ASK)
    return out, model.calls


class TestAstute(MethodTests):
    method = "astute"
    replies = REPLIES


def test_both_sources_are_marked_and_only_the_retrieved_are_cited() -> None:
    out, calls = run({"k": 2})
    assert out["answer"] == "Ada Brenner"
    shown = calls[-1].last
    assert '<passage 1 source="retrieval" title="Card 0">' in shown
    assert '<passage 3 source="memory">\nThe bridge at Alden was built in 1931.' in shown
    assert len(out["passages"]) == 2
    assert all("memory" not in name for candidate in out["candidates"].values() for name in candidate["passages"])


def test_a_model_that_does_not_know_adds_no_passage() -> None:
    _, calls = run(recall="I don't know.")
    assert "memory" not in calls[-1].last.partition("Question:")[0]


def test_several_passages_from_memory_are_paragraphs() -> None:
    _, calls = run({"max_own_passages": 2, "k": 1}, recall="Passage 1: One.\n\nPassage 2: Two.\n\nThree.")
    shown = calls[-1].last
    assert '<passage 2 source="memory">\nOne.' in shown
    assert '<passage 3 source="memory">\nTwo.' in shown
    assert "Three." not in shown


def test_rounds_of_consolidation() -> None:
    _, calls = run({"iterations": 3})
    assert [call.node for call in calls if call.node != "recall"] == ["consolidate", "consolidate", "answer"]
    assert "Grouped so far:\nPassages 1 and 11 agree." in calls[-1].last
    _, calls = run({"iterations": 4}, consolidate="")
    assert [call.node for call in calls if call.node != "recall"] == ["consolidate", "answer"]


def test_with_no_source_the_question_is_asked_alone() -> None:
    model = ScriptedModel(script={**REPLIES, "recall": "I don't know.", "answer": "So the answer is Ada Brenner."})
    out = build_graph("astute", model=model, retriever=RecordingRetriever(documents=[])).invoke(ASK)
    assert (out["answer"], out["passages"]) == ("Ada Brenner", [])
    assert model.calls[-1].text.startswith("Question: ")


def test_the_papers_prompts() -> None:
    _, calls = run({"profile": "paper", "iterations": 2, "k": 1})
    texts = {call.node: call.text for call in calls}
    context = (
        f'<passage 1 source="retrieval" title="Card 0">\n{CARDS[0].page_content}\n</passage>\n'
        f'<passage 2 source="memory">\n{REPLIES["recall"]}\n</passage>'
    )
    assert texts["recall"] == (
        "Generate a document that provides accurate and relevant information to answer the given question. If the "
        "information is unclear or uncertain, explicitly state 'I don't know' to avoid any hallucinations.\n"
        f"Question: {ASK['question']}\nDocument:"
    )
    assert texts["consolidate"].startswith(
        "Consolidate information from both your own memorized documents and externally"
    )
    assert texts["consolidate"].endswith(
        f"Initial Context: {context}\nLast Context: {context}\nQuestion: {ASK['question']}\nNew Context:"
    )
    assert "Highlight your exact answer within <ANSWER> your answer </ANSWER>." in texts["answer"]
    assert texts["answer"].endswith(
        f"Initial Context: {context}\nConsolidated Context: {REPLIES['consolidate']}\nQuestion: {ASK['question']}\nAnswer:"
    )
