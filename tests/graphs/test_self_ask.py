"""Self-Ask: follow-ups, their reader, ends, and the forms of the papers' tables."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import ModelCall, RecordingRetriever, ScriptedModel

QUESTION = "Where did the builder of the bridge at Alden study?"
FIRST, SECOND = "Who built the bridge at Alden?", "Where did Ada Brenner study?"
FINAL = "So the final answer is: Norhaven"


def run(*replies: str, read: str = "It was she.", **options: Any) -> tuple[dict[str, Any], list[ModelCall], list[str]]:
    script = iter([*replies, *[replies[-1]] * 9])
    model = ScriptedModel(script=lambda call: read if call.node == "read" else next(script))
    retriever = RecordingRetriever()
    out = build_graph("self_ask", model=model, retriever=retriever, **options).invoke({"question": QUESTION})
    return out, model.calls, retriever.searches


def test_each_follow_up_is_looked_up_and_read() -> None:
    out, calls, searches = run(
        f" Yes.\nFollow up: {FIRST}\nIntermediate answer: made up", f"Follow up: {SECOND}", FINAL
    )
    assert (out["answer"], searches) == ("Norhaven", [FIRST, SECOND])
    assert [call.node for call in calls] == ["self_ask", "read", "self_ask", "read", "self_ask"]
    assert calls[-1].last.endswith(
        f"here: Yes.\nFollow up: {FIRST}\nIntermediate answer: It was she.\nFollow up: {SECOND}\n"
        "Intermediate answer: It was she."
    )


def test_without_a_reader_the_passages_are_the_intermediate_answer() -> None:
    _, calls, _ = run(f"Follow up: {FIRST}", FINAL, reader=False, k=1)
    assert [call.node for call in calls] == ["self_ask", "self_ask"]
    assert "Intermediate answer: Card 0 | The bridge at Alden was built by Ada Brenner" in calls[1].last


def test_the_reader_says_unknown_only_if_the_prompts_do() -> None:
    for unknown in (True, False):
        _, calls, _ = run(f"Follow up: {FIRST}", FINAL, unknown=unknown)
        assert all(("Unknown" in call.text) is unknown for call in calls)


def test_the_dialogue_is_continued_as_text_by_models_that_fill_in_forms_too() -> None:
    model = ScriptedModel(script=[f"Follow up: {FIRST}", "It was she.", FINAL], profile={"structured_output": True})
    out = build_graph("self_ask", model=model, retriever=RecordingRetriever()).invoke({"question": QUESTION})
    assert (out["answer"], [call.form for call in model.calls]) == ("Norhaven", ["", "", ""])


@pytest.mark.parametrize("first", [FINAL, "No.", "Unknown", ""])
def test_an_answer_before_any_follow_up_is_looked_up_first(first: str) -> None:
    out, _, searches = run(first, FINAL)
    assert (out["answer"], searches) == ("Norhaven", [QUESTION])
    assert run(FINAL, fallback_retrieval=False)[2] == []


def test_a_follow_up_asked_twice_makes_the_model_conclude() -> None:
    out, calls, searches = run(f"Follow up: {FIRST}", f"Follow up: {FIRST.lower()}", "Norhaven")
    assert (out["answer"], out["truncated"], searches) == ("Norhaven", False, [FIRST])
    assert calls[-1].last.endswith("So the final answer is:")


@pytest.mark.parametrize("last", ["Unknown", SECOND])
def test_at_the_limit_concat_answers(last: str) -> None:
    out, calls, _ = run(f"Follow up: {FIRST}", last, "Norhaven", max_rounds=1)
    assert ([call.node for call in calls], out["answer"]) == (["self_ask", "read", "self_ask", "concat"], "Norhaven")
    assert out["truncated"]


def test_slimplms_table_has_three_calls_of_the_chain_and_the_printed_prompts() -> None:
    out, calls, searches = run(*[f"Follow up: {follow_up}" for follow_up in (FIRST, SECOND)], FINAL, profile="paper")
    assert (out["answer"], searches) == ("Norhaven", [FIRST, SECOND])
    assert [call.node for call in calls].count("self_ask") == 3
    assert calls[0].text.startswith(
        "Given the following question, answer it by providing follow up questions and intermediate answers. If no follow up "
        "questions are necessary, answer the question directly.\nQuestion: Who lived longer, Muhammad Ali or Alan Turing?\n"
    )
    assert calls[1].text.startswith("Given the following reference, answer it by a brief sentence. You are not allowed")
    assert calls[1].text.endswith(
        "Question: Who is the director of Casino Royale?\nAnswer: The director of Casino Royale is Martin Campbell.\n\n"
        f"Question: {FIRST}\nAnswer:"
    )
    assert run(FINAL, profile="paper")[2] == []


def test_blendfilters_table_puts_what_is_found_before_the_question() -> None:
    replies = (f"Yes.\nFollow up: {FIRST}", f"Ada Brenner did.\nFollow up: {SECOND}", f"In Norhaven.\n{FINAL}")
    out, calls, searches = run(*replies, profile="blendfilter", k=2)
    assert (out["answer"], searches, len(calls)) == ("Norhaven", [FIRST, SECOND], 3)
    knowledge, dialogue = calls[-1].last.rpartition("Knowledge:")[2].split(f"Question: {QUESTION}\n")
    titles = [line.partition(" | ")[0] for line in knowledge.splitlines()]
    assert titles == [doc.metadata["title"] for doc in out["passages"]]
    assert len(titles) > 2
    assert dialogue == (
        f"Are follow up questions needed here: Yes.\nFollow up: {FIRST}\nIntermediate answer: Ada Brenner did.\n"
        f"Follow up: {SECOND}\nIntermediate answer:"
    )


def test_a_lone_intermediate_answer_is_gone_on_from_there() -> None:
    out, calls, _ = run(f"Yes.\nFollow up: {FIRST}", "Ada Brenner did.", FINAL, profile="blendfilter")
    assert (out["answer"], len(calls)) == ("Norhaven", 3)
    assert calls[-1].last.endswith("Intermediate answer: Ada Brenner did.")


def test_blendfilters_table_has_no_limit_of_three() -> None:
    """BlendFilter, appendix C: follow-ups until the model asks none."""
    asked = [f"Yes.\nFollow up: Who built bridge {number}?" for number in range(5)]
    out, _, searches = run(*asked, FINAL, profile="blendfilter", k=1)
    assert (out["answer"], len(searches)) == ("Norhaven", 5)


def test_slimplms_reader_is_shown_bare_references() -> None:
    """SlimPLM's released `selfask_reader.py`."""
    _, calls, _ = run(f"Follow up: {FIRST}", FINAL, profile="paper", k=1)
    reader = next(call for call in calls if call.node == "read")
    assert "References:The bridge at Alden was built by Ada Brenner" in reader.last
    assert "<passage" not in reader.last
