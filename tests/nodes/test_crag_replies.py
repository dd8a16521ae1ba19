"""Reading CRAG's grades and queries, and what each grade of a retrieval leads to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from tests.loops import events
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.nodes.crag import graded, strips_of
from ragweave.nodes.crag_reply import parse_grade, parse_keywords

FOUND = documents("Ada Brenner built the light. It is grey. It is tall. It is old.", "Rome is old.")
WEB = [Document("The light of Norland is by Ada Brenner.", id="web")]
QUESTION = "Who built the light?"


@pytest.mark.parametrize(
    ("reply", "grade"),
    [
        ("Correct", "Correct"),
        ("**Incorrect**", "Incorrect"),
        ("The passage is irrelevant.", "Incorrect"),
        ("It does not answer the question.", "Incorrect"),
        ("Not correct", "Incorrect"),
        ("Ambiguous: it names no builder", "Ambiguous"),
        ("It is partly correct.", "Ambiguous"),
        ("Yes, it is relevant.", "Correct"),
        ("<think>Incorrect?</think>Correct", "Correct"),
        ("The passage does not quite answer the question, so: Ambiguous", "Ambiguous"),
        ("The passage doesn't answer it fully. Ambiguous.", "Ambiguous"),
        ("It does not quite answer the question.", "Ambiguous"),
        ("Not ambiguous - Correct", "Correct"),
        ("It is not Correct but Ambiguous", "Ambiguous"),
        ("It isn’t correct.", "Incorrect"),
        ("Irrelevant. A correct passage would name the builder.", "Incorrect"),
        ("No, it is about another hall. The correct hall is Oster's.", "Incorrect"),
        ("The passage is not relevant; the correct answer is Ada Brenner.", "Incorrect"),
        ("Partially. It gives the correct builder, but leaves the year out.", "Ambiguous"),
        ("It is unclear whether the passage is correct.", "Ambiguous"),
        ("I am unsure if this is correct.", "Ambiguous"),
        ("The passage is relevant and shows that the premise is incorrect.", "Correct"),
        ("It doesn't quite answer it. I say that the passage is Incorrect.", "Incorrect"),
        ("It does not name her, but it is Correct because it names the hall.", "Correct"),
        ("It does not name the builder, making it Ambiguous.", "Ambiguous"),
        ("The passage is relevant, but it does not directly answer the question.", "Ambiguous"),
        ("Yes, it mentions the light, but it does not say who built it.", "Ambiguous"),
        ("Although it does not name her, the passage is relevant.", "Ambiguous"),
        ("The passage is somewhat relevant.", "Ambiguous"),
        ("Correct. It names her, but not the year.", "Correct"),
        ("Relevant. It says that she built it, but it was not her first light.", "Correct"),
        ("Yes, it answers it. However, no other details are given.", "Correct"),
        ("This is the only relevant passage.", "Correct"),
        ("No doubt, it is relevant.", "Correct"),
        ("Yes, but only partly.", "Ambiguous"),
        ("Yes, it answers the question, although it does not mention the year.", "Correct"),
        ("It does not, however, answer the question.", "Incorrect"),
        ("This passage is not, in my opinion, relevant.", "Incorrect"),
        ("Correct, Ambiguous or Incorrect", None),
        ("Ada Brenner", None),
        ("", None),
    ],
)
def test_a_grade_is_read_in_many_words(reply: str, grade: str | None) -> None:
    assert parse_grade(reply) == grade


@pytest.mark.parametrize(
    ("reply", "query"),
    [
        ("light, builder", "light, builder"),
        ('Query: "light, builder"\nThis finds it.', "light, builder"),
        ("Here is a search query:\nInes Falk, town", "Ines Falk, town"),
        ("Here is a search query: Ines Falk, town", "Ines Falk, town"),
        ("**Keywords:**\n1. Ines Falk\n2. town\n3. founder", "Ines Falk, town, founder"),
        ('- "Ines Falk"\n- town', "Ines Falk, town"),
        ("12. May 1999, treaty", "12. May 1999, treaty"),
        ("Verra, port, river", ""),
        ("Unknown", ""),
        ("", ""),
        (QUESTION, ""),
    ],
)
def test_a_query_is_read_off_its_line(reply: str, query: str) -> None:
    assert parse_keywords(reply, QUESTION) == query


def test_a_query_has_the_room_of_other_queries() -> None:
    said = {"grade": "Incorrect", "topic": "Ada Brenner", "filter": "1", "answer": "Ada"}
    model = ScriptedChat(replies=lambda seen: said[seen.task["task"]])
    build_graph("crag", model=model, retriever=ListRetriever(documents=FOUND)).invoke(
        {"question": QUESTION}
    )
    (asked,) = [seen for seen in model.seen if seen.task and seen.task["task"] == "topic"]
    assert asked.settings["max_tokens"] == 128


PIECES = ["Correct", "Incorrect", "Ambiguous", "not ", " ", "\n", "Query:", "<think>", "light"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)))
def test_any_reply_can_be_read(reply: str) -> None:
    assert parse_grade(reply) in ("Correct", "Ambiguous", "Incorrect", None)
    assert "\n" not in parse_keywords(reply, QUESTION)


@given(st.lists(st.sampled_from(["Correct", "Ambiguous", "Incorrect"])))
def test_one_correct_passage_is_enough_and_only_incorrect_ones_are_replaced(
    grades: list[str],
) -> None:
    expected = min(grades, default="Incorrect", key=["Correct", "Ambiguous", "Incorrect"].index)
    assert graded(grades) == expected


@given(st.integers(1, 5))
def test_strips_are_runs_of_sentences_of_one_passage(sentences: int) -> None:
    strips = strips_of(FOUND, sentences)
    texts = {doc.id: doc.page_content for doc in FOUND}
    assert all(texts[one["passage_id"]][one["start"] : one["end"]] == one["text"] for one in strips)
    for doc in FOUND:
        own = [one["text"] for one in strips if one["passage_id"] == doc.id]
        assert " ".join(own) == doc.page_content


def run(grade: str, *, kept: str = "0", **options: Any) -> tuple[Any, list[str]]:
    """Run with a judge that gives every passage one grade, and a web search."""

    def reply(seen: Seen) -> str:
        if seen.task["task"] == "grade":
            return grade
        if seen.task["task"] == "topic":
            return "light, builder"
        return kept if seen.task["task"] == "filter" else "Ada Brenner"

    web = ListRetriever(documents=WEB)
    graph = build_graph(
        "crag",
        model=ScriptedChat(replies=reply),
        retriever=ListRetriever(documents=FOUND),
        second_retriever=web,
        **options,
    )
    *_, state = graph.stream({"question": QUESTION}, stream_mode="values")
    return state, web.queries


def texts(state: Any) -> list[str]:
    return [doc.page_content for doc in state["passages"]]


def test_a_correct_retrieval_is_refined_alone() -> None:
    state, asked = run("Correct")
    assert (state["retrieval_grade"], asked) == ("Correct", [])
    assert texts(state) == ["Ada Brenner built the light. It is grey. It is tall."]
    assert state["usage"]["calls"] == len(FOUND) + 2


def test_strips_are_named_by_numbers_from_1() -> None:
    first = texts(run("Correct", kept="strip 1", strip_sentences=1)[0])
    second = texts(run("Correct", kept="strip 2", strip_sentences=1)[0])
    assert (first, second) == (["Ada Brenner built the light."], ["It is grey."])


@pytest.mark.parametrize("order", ["retrieved", "reversed"])
def test_the_prompts_order_does_not_change_which_strips_are_kept(order: str) -> None:
    found = documents(*(f"Passage {n} says a thing." for n in range(8)))

    def reply(seen: Seen) -> str:
        return {"grade": "Correct", "filter": "1, 2, 3, 4, 5, 6, 7, 8"}.get(
            seen.task["task"], "Ada"
        )

    model = ScriptedChat(replies=reply)
    graph = build_graph(
        "crag", model=model, retriever=ListRetriever(documents=found), k=8, order=order
    )
    *_, state = graph.stream({"question": QUESTION}, stream_mode="values")
    wanted = [doc.page_content for doc in found[:5]]
    assert texts(state) == (wanted if order == "retrieved" else wanted[::-1])
    shown = next(seen.passages for seen in model.seen if seen.task["task"] == "filter")
    assert shown == [doc.page_content for doc in (found if order == "retrieved" else found[::-1])]


def test_an_ambiguous_retrieval_is_added_to_behind_what_was_found_first() -> None:
    state, _ = run("Ambiguous", refine=False, order="reversed")
    assert texts(state) == [doc.page_content for doc in [*FOUND, *WEB]][::-1]


def test_an_ambiguous_retrieval_is_added_to() -> None:
    state, asked = run("Ambiguous", refine=False)
    assert (state["retrieval_grade"], asked) == ("Ambiguous", ["light, builder"])
    assert texts(state) == [doc.page_content for doc in [*FOUND, *WEB]]


def test_an_incorrect_retrieval_is_replaced() -> None:
    state, asked = run("Incorrect")
    assert (texts(state), asked) == ([WEB[0].page_content], ["light, builder"])


def test_without_the_rewrite_the_question_is_searched_again() -> None:
    _, asked = run("Incorrect", rewrite=False)
    assert asked == [QUESTION]
    state, asked = run("Incorrect", second_search=False)
    assert (asked, len(state["passages"])) == ([], 1)


def test_what_was_graded_incorrect_does_not_come_back() -> None:
    def reply(seen: Seen) -> str:
        return {"grade": "Incorrect", "topic": "light"}.get(seen.task["task"], "Unknown")

    graph = build_graph(
        "crag", model=ScriptedChat(replies=reply), retriever=ListRetriever(documents=FOUND)
    )
    *_, state = graph.stream({"question": QUESTION}, stream_mode="values")
    assert (state["status"], state["passages"]) == ("unknown", [])
    assert "nothing_left" in events(state)


def test_another_part_of_a_page_that_was_graded_incorrect_comes_in() -> None:
    parts = [Document(text, id="w1") for text in ("It is grey.", "Ada Brenner built it.")]

    def reply(seen: Seen) -> str:
        return {"grade": "Incorrect", "topic": "light", "filter": "all"}.get(
            seen.task["task"], "Ada"
        )

    graph = build_graph(
        "crag",
        model=ScriptedChat(replies=reply),
        retriever=ListRetriever(documents=parts[:1]),
        second_retriever=ListRetriever(documents=parts),
    )
    *_, state = graph.stream({"question": QUESTION}, stream_mode="values")
    assert texts(state) == ["Ada Brenner built it."]
