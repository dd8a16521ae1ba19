"""Search-o1: the loop, its reader, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, ModelCall, RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"
ASKED = "I need the builder.\n<|begin_search_query|>bridge at Alden<|end_search_query|>"
ANSWER = "It was Ada. The final answer is \\boxed{Ada Brenner}."
READ = "**Final Information**\n\nAda Brenner built it."


class TestContract(MethodTests):
    method = "search_o1"
    looping = [f"<|begin_search_query|>card {number}<|end_search_query|>" for number in range(21)]

    def reply(self, call: ModelCall) -> str:
        if call.node == "read":
            return READ
        return ANSWER if "Ada Brenner built it." in call.text else ASKED


def run(*turns: str, read: str = READ, **options: Any) -> tuple[dict[str, Any], list[ModelCall], list[str]]:
    replies = iter([*turns, *[turns[-1]] * 30])
    model = ScriptedModel(script=lambda call: read if call.node == "read" else next(replies))
    retriever = RecordingRetriever()
    out = build_graph("search_o1", model=model, retriever=retriever, **options).invoke({"question": QUESTION})
    return out, model.calls, retriever.searches


def test_a_query_that_is_repeated_twice_ends_the_search() -> None:
    out, calls, searches = run(ASKED, ASKED, ASKED, " Ada Brenner}.")
    assert (searches, out["answer"]) == (["bridge at Alden"], "Ada Brenner")
    assert [call.node for call in calls] == ["reason", "read", "reason", "reason", "reason"]


def test_documents_are_read_by_a_second_call() -> None:
    out, calls, searches = run(ASKED, ANSWER, k=3)
    assert [call.node for call in calls] == ["reason", "read", "reason"]
    assert "Search query: bridge at Alden\n" in calls[1].last and "I need the builder." in calls[1].last
    assert calls[2].last == "\n\n<|begin_search_result|>Ada Brenner built it.<|end_search_result|>\n\n"
    assert "<passage" not in calls[2].text
    assert (out["answer"], searches, len(out["passages"])) == ("Ada Brenner", ["bridge at Alden"], 3)


def test_a_query_is_searched_for_once() -> None:
    _, calls, searches = run(ASKED, ASKED, ANSWER)
    assert (len(searches), [call.node for call in calls]) == (1, ["reason", "read", "reason", "reason"])
    assert "was searched for before" in calls[-1].last


def test_after_the_last_query_the_box_is_opened() -> None:
    turns = (ASKED, ASKED.replace("Alden", "Norhaven"), "Ada Brenner}.")
    out, calls, searches = run(*turns, max_rounds=2)
    assert calls[-1].last.endswith("The final answer is \\boxed{")
    assert (len(searches), out["answer"], out["truncated"]) == (2, "Ada Brenner", True)
    out, calls, _ = run(ASKED, max_rounds=1)
    assert (len(calls), out["answer"]) == (3, "Unknown")


@pytest.mark.parametrize(
    ("replies", "answer", "count"),
    [
        (["I have read nothing. It may be any of them.", "Ada Brenner}"], "Ada Brenner", 2),
        (["The final answer is \\boxed{Osk}.", "Ada Brenner}"], "Ada Brenner", 2),
        (["So the answer is Ada Brenner."], "Ada Brenner", 1),
        (["\\boxed{\\text{Ada Brenner}}"], "Ada Brenner", 1),
        (["\\boxed{Unknown}"], "Unknown", 1),
    ],
)
def test_a_reply_without_a_query_answers(replies: list[str], answer: str, count: int) -> None:
    out, calls, _ = run(*replies)
    assert (out["answer"], len(calls), out["truncated"]) == (answer, count, False)


def test_the_reader_is_shown_a_digest_of_a_long_reasoning() -> None:
    long = "\n".join(f"Thought {number}." for number in range(9))
    _, calls, _ = run(f"{long}\n{ASKED}", ANSWER)
    shown = calls[1].last.partition("Reasoning so far:\n")[2]
    assert shown.startswith("Thought 0.\n…\nThought 7.\nThought 8.\nI need the builder.\n")


def test_nothing_found_is_not_read() -> None:
    model = ScriptedModel(script=[ASKED, ANSWER])
    build_graph("search_o1", model=model, retriever=RecordingRetriever(documents=[])).invoke({"question": QUESTION})
    assert "No helpful information found." in model.calls[1].last
