"""A-RAG: its tools, natively and by a form, and how its loop ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.messages import AIMessage

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, ModelCall, RecordingRetriever, ScriptedModel
from ragweave.tools.knowledge import IndexSettings, KnowledgeBase

QUESTION = "Who built the bridge at Alden?"


class TestContract(MethodTests):
    method = "agentic"
    looping = ["keyword_search: bridge", "semantic_search: quarry", *(f"read: {number}" for number in range(1, 9))]

    def reply(self, call: ModelCall) -> str:
        if call.node == "answer":
            return "Ada Brenner"
        steps = call.last.rpartition("Question: ")[2]
        if "<passage" in steps:
            return "answer: Ada Brenner"
        return "read: 1" if "keyword_search:" in steps else "keyword_search: bridge, built"


class TestContractWithoutFallback(TestContract):
    options = {"fallback_retrieval": False, "max_rounds": 3}


class TestContractByAnEarlyAnswer(MethodTests):
    method = "agentic"
    replies = ["So the answer is Ada Brenner."]


def call(tool: str, **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": tool, "args": arguments, "id": f"{tool}-1"}])


def run(*replies: Any, native: bool = False, **options: Any) -> tuple[dict[str, Any], Any, list[str]]:
    profile = {"tool_calling": native, "structured_output": False}
    model, retriever = ScriptedModel(script=replies, profile=profile), RecordingRetriever()
    graph = build_graph("agentic", model=model, retriever=retriever, **options)
    return graph.invoke({"question": QUESTION}), model.calls, retriever.searches


def steps(call: Any) -> str:
    return str(call.last.partition(f"Question: {QUESTION}\n")[2])


def test_native_calls_run_together_and_the_text_without_one_is_the_answer() -> None:
    both = AIMessage(
        "",
        tool_calls=[
            *call("keyword_search", keywords="Ada Brenner, bridge").tool_calls,
            *call("semantic_search", query="arches").tool_calls,
        ],
    )
    out, calls, searches = run(
        both, call("read", ids=["1"]), "She built it. So the answer is Ada Brenner.", native=True
    )
    assert (out["answer"], sorted(searches), out["usage"]["retrievals"]) == (
        "Ada Brenner",
        ["Ada Brenner, bridge", "arches"],
        2,
    )
    assert [sorted(call.settings) for call in calls] == [["max_tokens", "tools"]] * 3
    assert {call["function"]["name"] for call in calls[0].settings["tools"]} == {
        "keyword_search",
        "semantic_search",
        "read",
    }
    assert [doc.page_content[:19] for doc in out["passages"]] == ["The bridge at Alden"]
    assert steps(calls[1]).startswith("keyword_search: Ada Brenner, bridge\n- 1: Card 0: The bridge at Alden was built")


def test_keywords_are_matched_exactly_and_a_snippet_has_their_sentences() -> None:
    _, calls, _ = run("keyword_search: granite", "read: 2", "answer: Unknown")
    assert steps(calls[1]).splitlines()[1:3] == [
        "- 1: Card 6: Granite for many bridges came from the quarry at Veld.",
        "- 2: Card 0: Its five arches are of grey granite.",
    ]
    assert '<passage 2 title="Card 0">\nThe bridge at Alden was built' in steps(calls[2])


def test_a_passage_is_read_once_and_a_number_that_no_search_showed_is_not_there() -> None:
    _, calls, _ = run(
        "keyword_search: granite", "read: 1", "read: 1", "read: 44", "answer: Unknown", fallback_retrieval=False
    )
    assert "Passage 1 was read before: see above." in steps(calls[3])
    assert len(calls) == 5
    assert calls[4].node == "answer"


def test_two_rounds_that_bring_nothing_new_end_the_loop_and_concat_answers_from_what_was_read() -> None:
    replies = "keyword_search: granite", "read: 2", "read: 2", "hm", "Ada Brenner"
    out, calls, _ = run(*replies, fallback_retrieval=False)
    assert ([call.node for call in calls], out["answer"], out["truncated"]) == (
        ["agent"] * 4 + ["answer"],
        "Ada Brenner",
        True,
    )
    assert [doc.metadata["title"] for doc in out["passages"]] == ["Card 0"]
    out, calls, searches = run(*replies)
    assert (len(calls), len(out["passages"]), searches[-1]) == (5, 5, QUESTION)


def test_a_snippet_is_shown_once() -> None:
    _, calls, _ = run("keyword_search: granite", "keyword_search: Granite", "read: 1", "answer: Unknown")
    assert steps(calls[2]).splitlines()[3:5] == ["keyword_search: Granite", "- found before: 1, 2"]


def test_the_limit_forces_an_answer_from_what_was_found() -> None:
    searching = [f"semantic_search: {word}" for word in ("granite", "ferry")]
    out, calls, searches = run(*searching, "Ada Brenner", max_rounds=2, k=2, fallback_retrieval=False)
    assert (searches, len(calls), out["truncated"], len(out["passages"])) == (["granite", "ferry"], 3, True, 2)
    assert run(*searching, "Ada Brenner", max_rounds=2)[2] == ["granite", "ferry", QUESTION]


def test_an_answer_before_anything_was_read_is_looked_up() -> None:
    out, calls, searches = run("answer: Karl Oster", "answer: Ada Brenner", k=2)
    assert (out["answer"], searches, len(calls), len(out["passages"])) == ("Ada Brenner", [QUESTION], 2, 2)
    assert run("answer: Karl Oster", fallback_retrieval=False)[0]["answer"] == "Karl Oster"


def test_a_model_that_is_held_to_a_form_fills_it() -> None:
    calls = [
        {"tool": "keyword_search", "input": "Alden"},
        {"tool": "read", "input": "1"},
        {"tool": "answer", "input": "Ada"},
    ]
    replies = [json.dumps({"thought": "I look.", **call}) for call in calls]
    model = ScriptedModel(script=replies, profile={"structured_output": True})
    out = build_graph("agentic", model=model, retriever=RecordingRetriever()).invoke({"question": QUESTION})
    assert (out["answer"], [call.form for call in model.calls]) == ("Ada", ["FirstToolCall", "ToolCall", "ToolCall"])
    assert steps(model.calls[1]).startswith("Thought: I look.\nkeyword_search: Alden\n- 1: Card ")


@pytest.mark.parametrize(
    "reply",
    ["keyword_search[Alden]", "**Tool**: keyword_search: Alden", '{"tool": "keyword_search", "input": "Alden"}'],
)
def test_the_first_tool_that_a_text_names_is_called(reply: str) -> None:
    assert run(reply, "read: 1", "answer: Ada Brenner")[2] == ["Alden"]


def test_a_prompt_that_is_too_long_leaves_out_the_oldest() -> None:
    _, calls, _ = run("keyword_search: granite", "read: 1", "read: 2", "answer: Unknown", prompt_tokens=350)
    assert "(left out here)" in steps(calls[3])
    assert "<passage 2" in steps(calls[3])


def test_neighbours_are_read_where_a_knowledge_base_knows_them(tmp_path: Path) -> None:
    model = ScriptedModel(script=["keyword_search: grey granite", "read: 1", "answer: Ada Brenner"])
    texts = [f"Chapter {n}. " + ("It is of grey granite. " if n == 3 else "") + "Words. " * 30 for n in range(6)]
    with KnowledgeBase.create(tmp_path / "kb", settings=IndexSettings(size=30, embedding=None)) as kb:
        kb.add(Document("\n\n".join(texts), metadata={"title": "Alden"}))
        out = build_graph("agentic", model=model, retriever=kb.as_retriever()).invoke({"question": QUESTION})
    assert "grey granite" in out["passages"][1].page_content
    places = [doc.metadata["position"] for doc in out["passages"]]
    assert places == [places[0], places[0] + 1, places[0] + 2]
