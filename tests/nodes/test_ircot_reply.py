"""Reading the next sentence of a chain off a reply, and what the chain then looks up."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loops import events, final_state
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.nodes.ircot import EXAMPLES, next_sentence
from ragweave.tools.text.reply import PromptParts

FIRST = "The light was built by Ada Brenner."
PLACE = "Norland"
CONCLUDED = f"So the answer is: {PLACE}"
PARTS = PromptParts("Where was its builder from?", EXAMPLES, "Ada Brenner built the light.")


@pytest.mark.parametrize(
    ("reply", "text", "answer"),
    [
        (f"{FIRST} She was from Norland. So the answer is: Norland.", FIRST, ""),
        (f"Next sentence: {FIRST}", FIRST, ""),
        ("Her note has a: step 2: turn.", "Her note has a: step 2: turn.", ""),
        (f"<think>hm</think>**Reasoning:** {FIRST}", FIRST, ""),
        ("So the answer is: Norland.", "So the answer is: Norland.", "Norland"),
        ("Therefore, the answer is Norland.", "Therefore, the answer is Norland.", "Norland"),
        ("So the answer is: Dr. Ada B. Brenner.", "So the answer is: Dr. Ada B. Brenner.", None),
        (f"1. {FIRST}", FIRST, ""),
        (f"- **2)** Next sentence: {FIRST} She was from Norland.", FIRST, ""),
        ("Dr. No was directed by Bo. It is long.", "Dr. No was directed by Bo.", ""),
        ("She met Dr. No in 1962. He left.", "She met Dr. No in 1962.", ""),
        ("W. H. Lund was its keeper. He left.", "W. H. Lund was its keeper.", ""),
        ("3.5 million people saw it.", "3.5 million people saw it.", ""),
        ("Built in 1934. Ada did it.", "Built in 1934.", ""),
        ("1.", "", ""),
        ("", "", ""),
        ("(nothing yet)", "", ""),
        ("I don't know.", "", ""),
        ("<passage 1>", "", ""),
        ("Verra is a port on the river Osk.", "", ""),
        ("Ada Brenner was born on the Osk.", "", ""),
        ("So the answer is: Osk.", "", ""),
        ("So the answer is:", "", ""),
        (f"So the answer to the question is: {PLACE}.",) * 2 + (PLACE,),
        (f"Therefore, the answer to this question is {PLACE}.",) * 2 + (PLACE,),
        (f"**Final Answer:** {PLACE}", f"**Final Answer:** {PLACE}", PLACE),
        ("The answer to the question is given in passage 2.",) * 2 + ("",),
        ("Next, the answer to the question is needed.",) * 2 + ("",),
        ("The answer to your question is not accurate.",) * 2 + ("",),
        (f"The answer to the first question is {PLACE}.",) * 2 + ("",),
        (f"Ada Brenner built it\nSo the answer is: {PLACE}", "Ada Brenner built it", ""),
        (f"{CONCLUDED}\n\nExplanation: She was born there.", CONCLUDED, PLACE),
        (f"{CONCLUDED}. Question: Who wrote it? So the answer is: Bo.", f"{CONCLUDED}.", PLACE),
        (f"{CONCLUDED}. Question: Who wrote it? Answer: Bo", f"{CONCLUDED}.", PLACE),
        (f"So the answer is:\n\n{PLACE}\nShe was born there.", CONCLUDED, PLACE),
        (f"So the answer is\n{PLACE}", f"So the answer is {PLACE}", PLACE),
        ('So the answer is: "AC > DC".', 'So the answer is: "AC > DC".', "AC > DC"),
        (f"Next sentence:\n{FIRST}", FIRST, ""),
        (f"**Next sentence**\n\n{FIRST}", FIRST, ""),
        (f"1.\n{FIRST}", FIRST, ""),
        (f"It is known that:\n{FIRST}", f"It is known that: {FIRST}", ""),
    ],
)
def test_the_first_new_sentence_counts(reply: str, text: str, answer: str | None) -> None:
    said = next_sentence(reply, [], "short", PARTS)
    assert said.text == text
    if answer is None:
        assert said.answer.startswith("Dr. Ada B")
    else:
        assert said.answer == answer


def test_a_long_answer_goes_on_behind_its_line() -> None:
    reply = "So the answer is:\nAda built it in 1884.\nIt was moved in 1901."
    said = next_sentence(reply, [], "long")
    assert said.answer == "Ada built it in 1884. It was moved in 1901."
    goes_on = f"{reply}\nSo the answer is: Bo."
    assert next_sentence(goes_on, [], "long").answer == said.answer


def test_a_chain_that_is_repeated_goes_on_behind_it() -> None:
    said = next_sentence(f"{FIRST} She was from Norland.", [FIRST], "short", PARTS)
    assert said.text == "She was from Norland."
    lines = next_sentence(f"{FIRST}\nShe was from Norland.", [FIRST], "short", PARTS)
    assert lines.text == "She was from Norland."
    listed = next_sentence(f"1. {FIRST} 2. She was from Norland.", [FIRST], "short", PARTS)
    assert listed.text == "She was from Norland."
    assert next_sentence(FIRST, [FIRST], "short", PARTS).text == ""


PIECES = ["So the answer is", ":", " ", "\n", "Norland", FIRST, "Next sentence:", "<think>", ". "]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_reply_can_be_read(reply: str) -> None:
    said = next_sentence(reply, [FIRST], "short", PARTS)
    assert said.text != FIRST
    assert "\n" not in said.text
    assert not said.answer or "answer is" in said.text.lower()


@pytest.mark.parametrize(
    "options", [{"samples": 5}, {"sufficient_context": True}, {"sufficient_context": "printed"}]
)
def test_what_a_chain_that_answers_itself_cannot_do_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="read_by=chain"):
        build_graph("ircot", read_by="chain", **options)
    with pytest.raises(UsageError, match="read_by=chain"):
        build_graph("adaptive_rag", read_by="chain", strategy="many", **options)
    build_graph("adaptive_rag", read_by="chain", strategy="one", **options)
    build_graph("ircot", **options)


def test_each_sentence_is_looked_up_until_one_concludes() -> None:
    second = "Ada Brenner came from Norland."
    replies = [FIRST, second, "So the answer is: Norland.", "Norland"]
    retriever = ListRetriever(documents=documents("Ada Brenner built the light.", "It is grey."))
    graph = build_graph(
        "ircot", model=ScriptedChat(replies=replies), retriever=retriever, read_by="direct"
    )
    state = final_state(graph, "Where was its builder from?")
    assert retriever.queries == ["Where was its builder from?", FIRST, second]
    assert (state["answer"], state["truncated"]) == ("Norland", False)
    assert state["usage"]["by_node"]["reason"]["calls"] == 3


def test_a_chain_that_says_nothing_leaves_the_question_to_the_reader() -> None:
    retriever = ListRetriever(documents=documents("Ada Brenner built the light."))
    graph = build_graph(
        "ircot",
        model=ScriptedChat(replies=["???", "So the answer is Norland."]),
        retriever=retriever,
    )
    state = final_state(graph, "Where?")
    assert (state["answer"], state["truncated"]) == ("Norland", False)
    assert "step_unparsed" in events(state)
