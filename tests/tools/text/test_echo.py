"""Echoes of a prompt: no answers, no queries."""

from __future__ import annotations

import pytest

from ragweave.nodes.replies import parse_answer, read_answer
from ragweave.tools.claims import parse_ids, parse_rewrite
from ragweave.tools.text.reply import MAX_REPLY, Examples, PromptParts, bounded, echo_of

PARTS = PromptParts("Which ferry is faster?", Examples(answers=("Blue Heron", "no")))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ('<passage 6 title="Ferries of the north">', "delimiter"),
        ("Passage 2", "delimiter"),
        ("its query", "placeholder"),
        ("a name", "placeholder"),
        ("[your answer here]", "placeholder"),
        ("first claim", "placeholder"),
        ("Which ferry is faster", "question"),
        ("Question: which ferry is faster?", "question"),
        ("the Blue Heron", "example"),
        ("no", "example"),
        ("North Star", ""),
        ("sentence", ""),
        ("context", ""),
        ("", ""),
    ],
)
def test_kinds(said: str, kind: str) -> None:
    assert echo_of(said, PARTS) == kind


def test_what_is_observed_supports_an_example() -> None:
    assert echo_of("Blue Heron", PARTS._replace(observed="The Blue Heron is faster.")) == ""
    assert echo_of("no", PARTS._replace(question="Is it faster?")) == ""


@pytest.mark.parametrize("said", ["Query", "text", "Claim.", "**Answer**", "A date"])
def test_a_word_that_was_asked_or_read_about_is_no_placeholder(said: str) -> None:
    word = said.strip("*.").removeprefix("A ")
    asked = PromptParts(f"What is stored, a {word} or a picture?")
    read = PromptParts("What is stored?", observed=f"The {word} is stored.")
    assert echo_of(said, asked) == ""
    assert echo_of(said, read) == ("placeholder" if said.startswith("A ") else "")
    assert echo_of(said, PromptParts("What is stored?")) == "placeholder"
    assert read_answer(said, "short", asked).answer != "Unknown"


def test_what_is_to_be_filled_in_is_a_placeholder_whatever_was_read() -> None:
    parts = PromptParts("Which query is the answer?", observed="its query, the answer, a text")
    for said in ("its query", "[your answer here]", "[query]", "<text>", "the answer"):
        assert echo_of(said, parts) in ("placeholder", "delimiter")


BAND = "Which coastal band released the album Low Water and had a drummer who was born in Tarn?"


@pytest.mark.parametrize(
    ("said", "question", "kind"),
    [
        (
            "The coastal band released Low Water and had a drummer who was born in Tarn.",
            BAND,
            "question",
        ),
        (
            "The coastal band that released Low Water and had a drummer born in Tarn is the Who.",
            BAND,
            "",
        ),
        ("The Gulls released the album Low Water and had a drummer born in Tarn.", BAND, ""),
        ("Low Water", BAND, ""),
        (
            "Red Hot Gulls of Tarn",
            "Which band was formed in 1980 in Tarn, Red Hot Gulls of Tarn?",
            "",
        ),
        (
            "The Red Hot Gulls were formed first.",
            "Which band was formed first, U2 and The Red Hot Gulls?",
            "",
        ),
        (
            "The Tarn City Marathon is held in Tarn City.",
            "In which city is the Tarn City Marathon held?",
            "",
        ),
        (
            "The poet who wrote the long poem Ebb Tide was born in Tarn.",
            "In fact, was the poet who wrote the long poem Ebb Tide born in Tarn?",
            "",
        ),
        ("Ada printed the poem Ebb Tide", "Who wrote or printed Ebb Tide, the poem, Ada?", ""),
    ],
)
def test_an_answer_that_states_its_question_again_is_none(said: str, question: str, kind: str) -> None:
    read = read_answer(said, "short", PromptParts(question))
    assert read.rejected == kind
    assert (read.answer == "Unknown") == bool(kind)


def test_a_reasoning_without_its_conclusion_is_no_answer() -> None:
    said = "Passage 1 is about ice. Passage 2 is about ferries."
    assert read_answer(said, "short", reasons=True) == ("Unknown", "no_conclusion")
    assert read_answer("1891", "short", reasons=True) == ("1891", "")
    two = "The ferry was built in Verra. It is old. So it is the Blue Heron."
    assert read_answer(two, "short", reasons=True).answer == "it is the Blue Heron"


@pytest.mark.parametrize(
    "reply",
    [
        "Paris. This is stated in passage 2.",
        "Paris (passage 2)",
        "Paris, as stated in passage 2.",
        "According to passage 2, Paris.",
    ],
)
def test_where_an_answer_stands_is_not_the_answer(reply: str) -> None:
    assert parse_answer(reply, "short") == "Paris"


def test_titles_and_annotated_ids() -> None:
    titles = ("BM25", "Recall", "Query Blending")
    assert parse_ids("0 (T0), 2 (T2)", 3) == [0, 2]
    assert parse_ids("- Query Blending\n- BM25", 3, titles) == [0, 2]
    assert parse_ids("Knowledge 0: BM25 | It is not dense.", 3, titles) == [0]
    assert parse_ids("- Something else", 3, titles) is None
    assert parse_ids("Recall", 3, ("Recall", "Recall", "BM25")) is None


def test_a_copied_placeholder_is_passed_over() -> None:
    read = parse_rewrite("<Query(its query)>How does it float?</Query(its query)>", "Why?")
    assert [one.query for one in read.questions] == ["How does it float?"]


def test_a_long_reply_is_read_at_its_ends() -> None:
    assert len(bounded("a" * 10 * MAX_REPLY)) == MAX_REPLY
    assert bounded("a" * MAX_REPLY) == "a" * MAX_REPLY
