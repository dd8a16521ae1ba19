"""Research: the plan, the budget, resuming, other methods' passages, and the report as a document."""

from __future__ import annotations

import re
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from tests.quotes import check_citations

from ragweave import build_graph
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.footnotes import html_report, markdown_report

ASK = {"question": "What is known of the bridge at Alden?"}
PLAN = '{"questions": ["Who built the bridge at Alden?", "Which river runs under it?", "What is it made of?"]}'
SAID = "The bridge at Alden was built by Ada Brenner in 1931. It sings <b>at night</b>."


def run(write: Any = SAID, **options: Any) -> tuple[dict[str, Any], ScriptedModel]:
    model = ScriptedModel(script={"plan": PLAN, "write": write})
    graph = build_graph("research", model=model, retriever=RecordingRetriever(), k=2, **options)
    return graph.invoke(ASK), model


def test_every_sentence_is_quoted_or_left_without_quotes() -> None:
    out, _ = run()
    check_citations(out["answer"], out["passages"], out["citations"])
    assert out["answer"].count("## ") == 3
    assert [bool(citation["quotes"]) for citation in out["citations"]] == [True, False] * 4


def test_a_section_has_no_headings_and_keeps_its_code() -> None:
    out, _ = run(f"# The bridge\n{SAID}\n```sh\n# open it\nbridge --open\n```", max_sections=0)
    assert out["answer"].endswith(f"{SAID}\n```sh\n# open it\nbridge --open\n```")
    assert "# The bridge" not in out["answer"].replace("## ", "")
    assert [citation["text"] for citation in out["citations"]] == [
        "The bridge at Alden was built by Ada Brenner in 1931.",
        "It sings <b>at night</b>.",
    ]


@pytest.mark.parametrize("limit", [{"max_calls": 3}, {"max_total_tokens": 300}])
def test_a_budget_ends_the_report(limit: dict[str, int]) -> None:
    out, model = run(**limit)
    assert len(model.calls) < 5
    assert out["truncated"]
    assert out["answer"].rstrip().endswith("- What is it made of?")


def test_what_the_passages_do_not_say_is_listed() -> None:
    def write(call: ModelCall) -> str:
        return PLAN if call.node == "plan" else "Unknown" if "Question: Which river" in call.text else SAID

    model = ScriptedModel(script=write)
    out = build_graph("research", model=model, retriever=RecordingRetriever()).invoke(ASK)
    assert out["answer"].endswith("## Not answered\n\n- Which river runs under it?")
    assert not out["truncated"]


def test_a_report_resumes_where_it_failed() -> None:
    failing = [True]

    def write(call: ModelCall) -> str:
        if call.node == "plan":
            return PLAN
        if "Question: Which river" in call.text and failing:
            failing.pop()
            raise RuntimeError("the model is gone")
        return SAID

    model, config = ScriptedModel(script=write), {"configurable": {"thread_id": "1"}}
    graph = build_graph("research", model=model, retriever=RecordingRetriever(), checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="the model is gone"):
        graph.invoke(ASK, config)
    out = graph.invoke(None, config)
    assert out["status"] == "answered"
    assert len(model.calls) == 1 + 4 + 1


def test_sections_are_written_from_what_a_method_found() -> None:
    def reply(call: ModelCall) -> str:
        return {"plan": PLAN, "write": SAID, "grade": "Correct"}.get(call.node, "1")

    model = ScriptedModel(script=reply)
    crag = build_graph("crag", model=model, retriever=RecordingRetriever(), k=3)
    graph = build_graph("research", model=model, retriever=crag.as_retriever(), max_sections=1)
    out = graph.invoke(ASK)
    assert [call.node for call in model.calls].count("grade") == 2 * 3
    assert out["usage"]["calls"] == len(model.calls)


def test_a_plan_that_cannot_be_read_leaves_the_question_itself() -> None:
    model = ScriptedModel(script={"plan": "", "write": SAID})
    out = build_graph("research", model=model, retriever=RecordingRetriever()).invoke(ASK)
    assert out["answer"] == f"# {ASK['question']}\n\n{SAID}"


def test_the_report_as_a_document() -> None:
    out, _ = run()
    text, page = markdown_report(out), html_report(out)
    assert "built by Ada Brenner in 1931. [1] It sings \\<b\\>at night\\</b\\>. [unsupported]" in text
    assert text.endswith("\n1. “The bridge at Alden was built by Ada Brenner in 1931.” — Card 0\n")
    assert "<h2>Who built the bridge at Alden?</h2>" in page
    assert "4 of 8 sentences are quoted." in page
    assert (
        '<span class="unsupported" title="no passage supports this">It sings &lt;b&gt;at night&lt;/b&gt;.</span>'
        in page
    )
    assert re.search(r"<script|<link|src=|href=\"[^#]", page) is None
