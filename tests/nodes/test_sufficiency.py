"""Abstaining where the passages hold too little to answer from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loops import events
from tests.scripted import ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.nodes.sufficiency import parse_sufficiency

PASSAGES = documents("Ada Brenner built the light.", "The light is grey.")


@pytest.mark.parametrize(
    ("reply", "enough"),
    [
        ("Yes", True),
        ("**No.**", False),
        ("The context is sufficient.", True),
        ("The context is insufficient.", False),
        ("There is not enough to tell.", False),
        ("<think>No?</think>Yes", True),
        ("Ada Brenner", None),
        ("", None),
        ("The passages do not hold enough to answer.", False),
        ("There isn't enough information", False),
        ("not really enough", False),
        ("The context is not at all sufficient.", False),
        ("The passages lack sufficient detail.", False),
        ("I doubt that there is enough.", False),
        ("There is no date, making the context insufficient.", False),
        ("The passages give no year, but they hold enough to answer.", True),
        ("There is no doubt that the passages hold enough.", True),
        ("The passages hold enough to say who did not build it.", True),
        ("Enough information is not provided.", None),
        ("The passages do not, in my view, hold enough.", None),
        ("The context is sufficient. It is not sufficient for the year.", None),
        ("The context is not insufficient.", None),
        ("I cannot tell whether there is enough.", None),
        ("Is the context sufficient? The light is grey.", None),
    ],
)
def test_a_rating_is_read_in_many_words(reply: str, enough: bool | None) -> None:
    assert parse_sufficiency(reply) is enough


@pytest.mark.parametrize(
    ("reply", "enough"),
    [
        ("Sufficient Context: 0", False),
        ("**Sufficient Context: 0**", False),
        ("**Sufficient Context:** 1", True),
        ("The year is given.\n{Sufficient Context: 0}", False),
        ('{"sufficient_context": true}', True),
        ("Sufficient Context: 1 IF the CONTEXT is sufficient and 0 IF it is not", None),
        ("Sufficient Context: ?", None),
    ],
)
def test_a_label_is_read_with_and_without_quotes(reply: str, enough: bool | None) -> None:
    assert parse_sufficiency(reply) is enough


POSITIVE = ["The passages hold enough to answer", "The context is sufficient", "This is enough"]
NEGATIVE = [
    "The passages do not hold enough",
    "There isn’t enough here",
    "The passages lack sufficient detail",
    "The context is insufficient",
    "It is never enough",
]
SENTENCES = st.lists(st.sampled_from(POSITIVE + NEGATIVE), min_size=1, max_size=6)


@given(SENTENCES, st.sampled_from([". ", "; ", " but ", "\n", ", so "]))
def test_what_is_said_counts_where_all_of_it_agrees(said: list[str], between: str) -> None:
    ways = {one in POSITIVE for one in said}
    expected = ways.pop() if len(ways) == 1 else None
    assert parse_sufficiency(between.join(said)) is expected


NEGATIONS = ["not", "no", "never", "hardly", "cannot", "doesn't", "without", "lacks"]
FILLERS = st.lists(st.sampled_from(["really", "at", "all", "seem", "to", "be", "the"]), max_size=5)


@given(st.sampled_from(NEGATIONS), FILLERS, st.sampled_from(["enough", "sufficient"]))
def test_a_negated_clause_never_means_enough(negation: str, filler: list[str], word: str) -> None:
    assert parse_sufficiency(" ".join(["It", negation, *filler, word, "detail"])) is False


PIECES = ["Yes", "No", "not ", "enough", "insufficient", " ", "\n", "<think>", "</think>"]
PIECES += ["sufficient context", ": ", "0", '"', "*", ", ", "?", "whether "]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_reply_can_be_read(reply: str) -> None:
    assert parse_sufficiency(reply) in (True, False, None)


def run(rating: str, method: str = "concat", **options: Any) -> tuple[Any, ScriptedChat]:
    def reply(seen: Seen) -> str:
        return rating if seen.task["task"] == "sufficient" else "Ada Brenner"

    model = ScriptedChat(replies=reply)
    graph = build_graph(method, model=model, **{"sufficient_context": True, **options})
    given: Any = {"question": "Who built it?", "passages": PASSAGES}
    *_, state = graph.stream(given, stream_mode="values")
    return state, model


def test_too_little_means_unknown_without_an_answer_call() -> None:
    state, model = run("No")
    assert (state["status"], len(model.seen)) == ("unknown", 1)
    assert events(state) == ["context_insufficient"]
    assert [doc.id for doc in state["passages"]] == ["p0", "p1"]


@pytest.mark.parametrize(("label", "status"), [("1", "answered"), ("0", "unknown")])
def test_the_papers_own_rating_ends_in_a_label(label: str, status: str) -> None:
    said = (
        "### EXPLANATION\nNo doubt about it.\n### EVALUATION (JSON)\n"
        f'{{"Sufficient Context": {label}}}\n### QUESTION\nWho was it?\n{{"Sufficient Context": 1}}'
    )
    state, model = run(said, sufficient_context="printed")
    assert state["status"] == status
    assert "### QUESTION\nWho built it?\n### REFERENCES\n<passage 1" in model.seen[0].text


def test_of_a_printed_rating_the_label_alone_counts() -> None:
    said = "1. Who built it? Answer: Ada Brenner\n2. Is the year given? Answer: No\nThe year is"
    state, model = run(said, sufficient_context="printed")
    assert (state["status"], events(state)) == ("answered", ["sufficiency_unparsed"])
    assert model.seen[0].settings["max_tokens"] == 1024
    _, model = run(said, sufficient_context="printed", reply_tokens=600)
    assert model.seen[0].settings["max_tokens"] == 600


def test_enough_is_answered_and_the_rating_counts_as_a_call() -> None:
    state, model = run("Yes")
    assert (state["answer"], state["usage"]["calls"], len(model.seen)) == ("Ada Brenner", 2, 2)


def test_a_rating_that_cannot_be_read_abstains_from_nothing() -> None:
    state, _ = run("zqxv")
    assert state["answer"] == "Ada Brenner"
    assert events(state) == ["sufficiency_unparsed"]


def test_passages_that_are_read_alone_are_rated_alone() -> None:
    state, model = run("No", "post_fusion")
    assert (state["status"], len(model.seen)) == ("unknown", 2)
    state, model = run("No", "concat_pf")
    assert (state["status"], len(model.seen)) == ("unknown", 3)


def test_the_rating_is_asked_for_in_the_callers_words() -> None:
    asked = "{passages}\nIs this enough for {question}? Yes or No."
    state, model = run("No", prompts={"sufficient": asked})
    assert state["status"] == "unknown"
    assert model.seen[0].text.endswith("Is this enough for Who built it?? Yes or No.")
