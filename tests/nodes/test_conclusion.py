"""Where replies conclude, and what says of an answer only where it stands."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loops import final_state
from tests.scripted import ScriptedChat

from ragweave import build_graph
from ragweave.nodes.conclusion import without_source
from ragweave.nodes.replies import concluding, read_answer


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize(
    "reply",
    [
        "Passage 2 names Ada. Here is the final answer: Ada",
        "Passage 2 names Ada. This is the final answer: Ada.",
        "Passage 2 names Ada. Here's my **final answer**: Ada",
        "Step 1: read.\nStep 2: think.\n- **Final Answer:** Ada",
        "Step 1: read.\nStep 2: think.\n3. Final Answer: Ada",
        "It rained.\n1) **Answer**: Ada",
        "It rained.\nFinal answer Ada",
    ],
)
def test_a_final_answer_is_found_wherever_it_stands(reply: str, reasons: bool) -> None:
    assert read_answer(reply, "short", reasons=reasons).answer == "Ada"


@pytest.mark.parametrize("reply", ["Final answer Yes", "Both did.\n**Final Answer** Yes."])
def test_a_final_verdict_needs_no_colon(reply: str) -> None:
    assert read_answer(reply, "yes_no", reasons=True).answer == "Yes"


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize(
    "place",
    ["in article 5", "in the 1936 document", "in a Nature article", "by Article 50"],
)
def test_a_place_may_be_the_answer(place: str, reasons: bool) -> None:
    reply = f"The right is guaranteed by law. So the answer is {place}."
    assert read_answer(reply, "short", reasons=reasons).answer == place
    assert without_source(reply) == reply


SOURCES = [
    "The answer is in passage 2.",
    "The answer is in the first sentence of passage 2.",
    "So the answer is in the article.",
    "The answer is found in the given context.",
    "The answer is stated in Document 3.",
    "The answer is based on the information provided in the text.",
    "The answer is in the information given in the text.",
    "The answer is based on my own knowledge.",
    "The answer is in passage 2, which names her.",
]


@pytest.mark.parametrize("reasons", [True, False])
@pytest.mark.parametrize("source", SOURCES)
def test_what_stands_before_its_source_is_the_answer(source: str, reasons: bool) -> None:
    assert read_answer(f"Ada Brenner. {source}", "short", reasons=reasons).answer == "Ada Brenner"


@given(st.from_regex(r"[A-Z][b-z]{2,9}( [A-Z][b-z]{2,9})?", fullmatch=True), st.data())
def test_a_source_is_cut_and_nothing_else(said: str, data: st.DataObject) -> None:
    source = data.draw(st.sampled_from(SOURCES))
    assert without_source(f"{said}. {source}") == f"{said}."
    assert without_source(f"{said}.\n{source} {said}.") == f"{said}. {said}."
    assert without_source(source) == source


@pytest.mark.parametrize(
    ("reply", "concluded"),
    [
        ("<answer>\n- Ada\n- Karl\n</answer>", "- Ada\n- Karl"),
        ("They built.\n<answer>Ada\nKarl</answer>", "Ada\nKarl"),
        ("<answer>So the answer is Ada.</answer>", "Ada"),
        ('{"answer": ["Ada", "Karl"]}', "Ada, Karl"),
        ("Here are the possible answers:\n1. Ada\n2. Karl", "1. Ada\n2. Karl"),
        ("Two did. Here are two answers.", None),
        (
            "So the answer is:\n- Ada\n- Karl\n\nThe answer is based on passages 1 and 2.",
            "- Ada\n- Karl",
        ),
    ],
)
def test_many_answers_are_all_concluded_with(reply: str, concluded: str | None) -> None:
    assert concluding(reply) == concluded


def test_an_empty_answer_among_many_is_unknown() -> None:
    model = ScriptedChat(replies=["It rained. <answer></answer>"])
    graph = build_graph("cot", model=model, wording="many", ask_again=False)
    assert final_state(graph, "Who built it?")["answer"] == "Unknown"


def test_many_answers_in_tags_end_a_run() -> None:
    model = ScriptedChat(replies=["They built.\n<answer>\n- Ada\n- Karl\n</answer>"])
    graph = build_graph("cot", model=model, wording="many")
    assert final_state(graph, "Who built it?")["answer"] == "- Ada\n- Karl"
