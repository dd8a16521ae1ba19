"""IRCoT: the chain of sentences, its searches and its readers."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, ModelCall, RecordingRetriever, ScriptedModel

QUESTION = "Where did the builder of the bridge at Alden study?"
FIRST, SECOND = "The bridge at Alden was built by Ada Brenner.", "Ada Brenner studied in Norhaven."


class TestContract(MethodTests):
    method = "ircot"
    looping = [f"Card {number} names the builder." for number in range(9)]

    def reply(self, call: ModelCall) -> str:
        if call.node != "reason":
            return "She built it. So the answer is Ada Brenner."
        return "So the answer is: Ada Brenner." if FIRST in call.last.rpartition("Reasoning")[2] else FIRST


def run(
    *chain: str, reader: str = "So the answer is Norhaven.", **options: Any
) -> tuple[dict[str, Any], Any, list[str]]:
    script = iter([*chain, *[chain[-1]] * 9])
    model = ScriptedModel(script=lambda call: next(script) if call.node == "reason" else reader)
    retriever = RecordingRetriever()
    out = build_graph("ircot", model=model, retriever=retriever, **options).invoke({"question": QUESTION})
    return out, model.calls, retriever.searches


def test_each_sentence_is_searched_until_one_concludes() -> None:
    out, calls, searches = run(FIRST, f"{SECOND} Norhaven is far away.", "So the answer is: Norhaven.")
    assert searches == [QUESTION, FIRST, SECOND]
    assert [call.node for call in calls] == ["reason"] * 3 + ["answer_cot"]
    assert calls[2].last.split("Reasoning so far: ")[1].startswith(f"{FIRST} {SECOND}\n")
    assert (out["answer"], out["truncated"]) == ("Norhaven", False)


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        (f"1. {FIRST}", FIRST),
        (f"Next sentence: {FIRST}\n{SECOND}", FIRST),
        ("Dr. Ada Brenner built it.", "Dr. Ada Brenner built it."),
        ("", None),
        ("I don't know.", None),
        (QUESTION, None),
        ("Verra is a port on the river Osk.", None),
    ],
)
def test_what_counts_as_the_next_sentence(reply: str, query: str | None) -> None:
    _, _, searches = run(reply, "So the answer is: Norhaven.")
    assert searches[1:] == ([query] if query else [])


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("So the answer is: Norhaven.", "Norhaven"),
        ("So the answer is:\nNorhaven", "Norhaven"),
        ("Therefore, the final answer is Norhaven. It is a town.", "Norhaven"),
        ("So the answer is: Unknown.", "Unknown"),
    ],
)
def test_the_chain_may_answer_itself(reply: str, answer: str) -> None:
    out, calls, _ = run(FIRST, reply, read_by="chain")
    assert (out["answer"], len(calls), out["truncated"]) == (answer, 2, False)


def test_the_limit_leaves_the_reader_what_was_found() -> None:
    out, calls, searches = run(FIRST, SECOND, max_steps=2, read_by="direct", max_passages=6, reader="Norhaven")
    assert ([call.node for call in calls], searches) == (["reason", "reason", "answer"], [QUESTION, FIRST])
    assert (out["answer"], out["truncated"], len(out["passages"])) == ("Norhaven", True, 6)


def test_a_chain_that_answers_has_no_reader_to_sample() -> None:
    with pytest.raises(UsageError, match="use read_by=cot"):
        build_graph("ircot", read_by="chain", samples=3)


def test_the_layout_of_the_paper() -> None:
    _, calls, _ = run(FIRST, "So the answer is: Norhaven.", profile="paper", k=1)
    asked = f"Q: Answer the following question by reasoning step-by-step.\n{QUESTION}\nA:"
    assert calls[0].last.startswith("Wikipedia Title: Card ")
    assert calls[0].last.endswith(f"\n\n{asked}")
    assert calls[1].last.endswith(f"\n\n{asked} {FIRST}")
