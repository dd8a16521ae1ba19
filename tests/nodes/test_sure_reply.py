"""Reading SuRe's replies, and which candidate they elect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loops import events
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.evaluation.runs import parse_systems
from ragweave.nodes.sure_prompts import EXAMPLES
from ragweave.nodes.sure_reply import (
    knows_no_candidate,
    parse_candidates,
    parse_preference,
    parse_validity,
    scores,
)
from ragweave.tools.text.reply import PromptParts

PARTS = PromptParts("Who built it?", EXAMPLES, "Ada Brenner and Karl Oster built it.")


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        ("(a) Ada Brenner, (b) Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("(a) Ada Brenner\n(b) Ada Brenner.", ["Ada Brenner"]),
        ("1. Ada Brenner\n2. Karl Oster\n3. Ines Falk", ["Ada Brenner", "Karl Oster"]),
        ("a) Ada Brenner b) Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("- Ada Brenner\n- Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("**(a)** Ada Brenner **(b)** Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("Ada Brenner", ["Ada Brenner"]),
        ("(a) (b) Ada Brenner", ["Ada Brenner"]),
        ("(a) Unknown (b) Karl Oster", ["Karl Oster"]),
        ("(A) Ada Brenner (B) Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("A) Ada Brenner\nB) Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("A. Ada Brenner\nB. Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("a. Ada Brenner\nb. Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("[a] Ada Brenner\n[b] Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("**Candidate 1:** Ada\n**Candidate 2:** Karl", ["Ada", "Karl"]),
        ("The two candidates are:\nAda Brenner\nKarl Oster", ["Ada Brenner", "Karl Oster"]),
        ("(a) 12. May 1999 (b) 13. May 1999", ["12. May 1999", "13. May 1999"]),
        ("1. 12. May 1999\n2. 13. May 1999", ["12. May 1999", "13. May 1999"]),
        ("1. Ada Brenner\n1. Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("A. P. J. Abdul Kalam", ["A. P. J. Abdul Kalam"]),
        ("A. J. Falk\nC. V. Raman", ["A. J. Falk", "C. V. Raman"]),
        ("A. P. J. Falk\nB. R. Oster", ["A. P. J. Falk", "B. R. Oster"]),
        ("A. J. R. Falk\nB. Karl Oster", ["J. R. Falk", "Karl Oster"]),
        ("(a)Ada Brenner (b)Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("(a)Ada Brenner\n(b)Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("(a)1897 (b)1898", ["1897", "1898"]),
        ("(b) Karl Oster (a) Ada Brenner", ["Karl Oster", "Ada Brenner"]),
        ("A) Ada Brenner B) Karl Oster", ["Ada Brenner", "Karl Oster"]),
        ("(a) Group (A) (b) Karl Oster", ["Group (A)", "Karl Oster"]),
        ("Vitamin (B) complex", ["Vitamin (B) complex"]),
        ("(a) Ada Bird(s) (s) (b) Karl Oster", ["Ada Bird(s) (s)", "Karl Oster"]),
        ("(a) 1891\n(b) 1902", []),
        ("(A) 1891 (B) 1902", []),
        ("The candidates are:", []),
        ("Unknown", []),
        ("", []),
    ],
)
def test_candidates_are_read_behind_their_letters(reply: str, answers: list[str]) -> None:
    assert parse_candidates(reply, "short", 2, PARTS) == answers


@pytest.mark.parametrize("between", [" ", ", ", "\n"])
def test_as_many_letters_are_read_as_candidates_were_asked_for(between: str) -> None:
    cities = ["Rome", "Oslo", "Bern", "Riga", "Kyiv", "Lima", "Doha", "Baku", "Suva", "Apia"]
    reply = between.join(
        f"({letter}) {one}" for letter, one in zip("abcdefghij", cities, strict=True)
    )
    assert parse_candidates(reply, "short", 10, PARTS) == cities
    unknown = between.join(f"({letter}) Unknown" for letter in "abcdefghij")
    assert knows_no_candidate(unknown, 10)


@pytest.mark.parametrize(
    ("reply", "none"),
    [
        ("Unknown", True),
        ("(a) Unknown\n(b) Unknown", True),
        ("1. I don't know.\n2. Unknown", True),
        ("(a) 1891\n(b) Unknown", False),
        ("The lighthouse stands on a lake.", False),
        ("The candidates are:", False),
    ],
)
def test_a_reply_may_know_no_candidate(reply: str, none: bool) -> None:
    assert knows_no_candidate(reply) is none


@pytest.mark.parametrize(
    ("reply", "valid"),
    [
        ("True", True),
        ("**False.**", False),
        ("Yes, it supports the prediction.", True),
        ("It does not support the prediction.", False),
        ("The prediction isn't supported by the passage.", False),
        ("The prediction is not correct.", False),
        ("It isn’t true.", False),
        ("The prediction cannot be supported.", False),
        ("The summary does not show that the prediction is correct.", False),
        ("The summary does not name her, but it supports the prediction.", True),
        ("It is not said in so many words: True", True),
        ("There is no doubt that it is correct.", True),
        ("Unsupported", False),
        ("It is not false.", None),
        ("The summaries support the prediction.", True),
        ("There is little support in them.", None),
        ("No, the true builder is Karl Oster.", False),
        ("The prediction is incorrect. The true answer is 1898.", False),
        ("The summary does not support the prediction; the true date is 1898.", False),
        ("No, it is true that Ada built it, but not in 1898.", False),
        ("No, the opposite is true.", False),
        ("Yes, the prediction is supported. The claim that Karl built it is false.", True),
        ("Supported. The opposite would be false.", True),
        ("The summary supports that she built. But it was not the hall. False.", False),
        ("The summary does not mention Ada (False)", False),
        ("The summary does not mention Ada [False].", False),
        ("The summary does not mention Ada → False", False),
        ("The summary does not mention Ada -> False", False),
        ("The summary does not mention Ada / False", False),
        ("The summary does not mention Ada, making it False", False),
        ("Since it does not mention Ada the answer is False", False),
        ("Since it does not say that the answer is True", False),
        ("It does not (fully) support it.", False),
        ("True or False", None),
        ("Ada", None),
        ("", None),
        ("True/False", None),
        ("True / False", None),
        ("True/False: True", True),
        ("True or False: false", False),
    ],
)
def test_validity_is_true_or_false(reply: str, valid: bool | None) -> None:
    assert parse_validity(reply) is valid


@pytest.mark.parametrize(
    ("reply", "named"),
    [
        ("Passage 1", 1),
        ("**Passage 2**", 2),
        ("2", 2),
        ("Summary 1 is better.", 1),
        ("Passage 1 or Passage 2", None),
        ("Passage 1 is more informative than passage 2.", 1),
        ("Passage 2 is better. Passage 1 does not mention the light.", 2),
        ("I prefer Passage 1 over **Passage 2**.", 1),
        ("I prefer Passage 2 to Passage 1.", 2),
        ("The better passage is passage 2, as passage 1 says nothing of it.", 2),
        ("Passage 1 and passage 2 are equally good.", None),
        ("Passage 1 is worse than Passage 2.", None),
        ("Passage 1 is no better than passage 2.", None),
        ("Passage 1 is weaker than passage 2.", None),
        ("Passage 1 does not mention her, but neither does passage 2.", None),
        ("Passage 1 is irrelevant, and so is passage 2.", None),
        ("Passage 1 does not contain errors, and passage 2 does.", None),
        ("Passage 1 lacks the year, and passage 2 doesn't name her.", None),
        ("Both", None),
        ("", None),
    ],
)
def test_one_passage_is_preferred(reply: str, named: int | None) -> None:
    assert parse_preference(reply) == named


PIECES = ["(a)", "(b) ", "1. ", "Ada Brenner", "Unknown", "\n", "True", "False", "Passage 1", ", "]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)), st.integers(1, 4))
def test_any_reply_can_be_read(reply: str, most: int) -> None:
    answers = parse_candidates(reply, "short", most, PARTS)
    assert len(answers) <= most
    assert len(set(answers)) == len(answers)
    assert "Unknown" not in answers
    assert parse_validity(reply) in (True, False, None)
    assert parse_preference(reply) in (1, 2, None)


def test_validity_and_the_pairs_won_add_up() -> None:
    both = {"0:1": "1", "1:0": "1"}
    assert scores(2, {"0": True, "1": True}, both) == [1.0, 2.0]
    assert scores(2, {"0": True, "1": False}, both) == [1.0, 1.0]
    assert scores(2, {}, {"0:1": "0", "1:0": "1"}) == [0.5, 0.5]
    assert scores(2, {}, {"0:1": "", "1:0": "0"}) == [0.75, 0.25]


@given(st.integers(2, 4), st.data())
def test_the_points_of_all_pairs_are_as_many_as_there_are_pairs(count: int, data: Any) -> None:
    pairs = [(i, j) for i in range(count) for j in range(count) if i != j]
    won = {f"{i}:{j}": data.draw(st.sampled_from([str(i), str(j), ""])) for i, j in pairs}
    assert sum(scores(count, {}, won)) == pytest.approx(count * (count - 1) / 2)


FOUND = documents("Ada Brenner built the light.", "Karl Oster built the hall.")


def run(reply: Any, **options: Any) -> Any:
    graph = build_graph(
        "sure",
        model=ScriptedChat(replies=reply),
        retriever=ListRetriever(documents=FOUND),
        **options,
    )
    *_, state = graph.stream({"question": "Who built it?"}, stream_mode="values")
    return state


def says(seen: Seen) -> str:
    """Reply as a model that finds the second candidate's summary true and better."""
    if "Give 2 candidates" in seen.text.rpartition("Question:")[2]:
        return "(a) Karl Oster (b) Ada Brenner"
    asked = seen.text.rpartition("Question:")[2]
    if "Say True or False" in asked:
        return str("Prediction: Ada" in asked)
    if "Which passage" in asked:
        return "Passage 1" if "Passage 1: It was Ada" in asked else "Passage 2"
    return "It was Ada's work." if "Prediction: Ada" in asked else "The hall is by Oster."


def test_the_best_supported_candidate_answers() -> None:
    state = run(says)
    assert (state["answer"], state["usage"]["calls"]) == ("Ada Brenner", 7)
    assert state["proposed"] == ["Karl Oster", "Ada Brenner"]
    assert state["candidates"]["summarise:1"]["reply"] == "It was Ada's work."
    assert [doc.id for doc in state["passages"]] == ["p0", "p1"]


def test_ablations_leave_their_calls_out() -> None:
    assert run(says, ranking=False)["usage"]["calls"] == 5
    assert run(says, validity=False)["usage"]["calls"] == 5
    state = run(says, validity=False, ranking=False)
    assert (state["usage"]["calls"], state["answer"]) == (3, "Karl Oster")


def test_one_candidate_answers_at_once_and_none_is_unknown() -> None:
    state = run(["Ada Brenner"])
    assert (state["answer"], state["usage"]["calls"]) == ("Ada Brenner", 1)
    assert run(["Unknown"])["status"] == "unknown"
    assert "candidates_unparsed" in events(run(["(a) 1891 (b) 1902"]))


def test_samples_are_refused() -> None:
    with pytest.raises(UsageError, match="sure takes no samples"):
        build_graph("sure", samples=2)
    with pytest.raises(UsageError, match="at most 26, a letter each"):
        build_graph("sure", candidates=27)


@pytest.mark.parametrize("method", ["sure", "flare"])
@pytest.mark.parametrize(
    "options",
    [{"sufficient_context": True}, {"sufficient_context": "printed"}, {"wording": "phrase"}],
)
def test_what_an_answer_step_does_is_refused_where_there_is_none(
    method: str, options: dict[str, Any]
) -> None:
    (name,) = options
    with pytest.raises(UsageError, match=f"{name}.* leave it out for {method}"):
        parse_systems(f"concat,{method}", options)
    default = "method" if name == "wording" else False
    kept, left_out = parse_systems(f"concat,{method}[{name}={default}]", options)
    assert kept.options == options
    assert left_out.options == {name: default}
