"""The end of a run: its passages are what the winning candidates read, whatever the state held."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from tests.scripted import ListRetriever, ScriptedChat, Seen, documents

from ragweave import build_graph
from ragweave.nodes.options import Options
from ragweave.nodes.vote import conclude, passages_read
from ragweave.state import Candidate


def read(*passages: str, answer: str = "Paris") -> Candidate:
    """Return a candidate that read the passages of these ids."""
    return {
        "answer": answer,
        "reply": answer,
        "pool": "answer",
        "round": 0,
        "rank": 0,
        "sample": 0,
        "passages": list(passages),
    }


def found(name: str, text: str = "text") -> Document:
    """Return a passage."""
    return Document(page_content=text, id=name)


def test_the_winner_comes_first_in_its_own_prompt_order() -> None:
    state = {"passages": [found("a"), found("b"), found("c"), found("d")]}
    winners = [read("c", "a"), read("a", "d")]
    assert [doc.id for doc in passages_read(state, winners)] == ["c", "a", "d"]


def test_a_filtered_passage_is_shown_as_the_filter_left_it() -> None:
    state = {
        "passages": [found("a", "cut")],
        "kept": {"question": [found("b", "kept")]},
        "retrieved": {"question": [found("a", "whole"), found("b", "whole"), found("c", "whole")]},
    }
    texts = [doc.page_content for doc in passages_read(state, [read("c", "b", "a")])]
    assert texts == ["whole", "kept", "cut"]


def test_nothing_read_means_no_passages() -> None:
    end = conclude({"passages": [found("a")]}, "Paris", [read()], Options(), truncated=True)
    assert (end["passages"].value, end["truncated"], end["status"]) == ([], True, "answered")


def test_a_vote_over_single_passages_names_those_that_won() -> None:
    def by_passage(seen: Seen) -> str:
        return "Rome" if "Rome" in seen.passages[0] else "Paris"

    texts = documents("Rome, they say.", "Paris it is.", "It is Paris.")
    model = ScriptedChat(replies=by_passage)
    graph = build_graph("post_fusion", model=model, retriever=ListRetriever(documents=texts))
    out = graph.invoke({"question": "Where?"})
    assert [doc.page_content for doc in out["passages"]] == ["Paris it is.", "It is Paris."]


def test_passages_that_did_not_fit_the_prompt_are_not_named_but_fall_back() -> None:
    """Concat has room for one passage and says Unknown: Post-Fusion still asks them all."""
    texts = documents(*(f"{word} " * 150 for word in ("one", "two", "three")))
    graph = build_graph(
        "concat_pf",
        model=ScriptedChat(replies=lambda seen: "Unknown" if "one" in seen.passages[0] else "Two"),
        retriever=ListRetriever(documents=texts),
        prompt_tokens=360,
    )
    out = graph.invoke({"question": "Which?"})
    assert (out["answer"], [doc.id for doc in out["passages"]]) == ("Two", ["p1", "p2"])
    concat = out["candidates"]["concat:0"]
    assert concat["passages"] == ["p0"]
    answered = build_graph(
        "concat",
        model=ScriptedChat(replies=lambda _seen: "One"),
        retriever=ListRetriever(documents=texts),
        prompt_tokens=360,
    ).invoke({"question": "Which?"})
    assert [doc.id for doc in answered["passages"]] == ["p0"]


def test_a_short_answer_names_what_its_reasoning_read() -> None:
    def replies(seen: Seen) -> str:
        return {"filter": "0"}.get(seen.task["task"], "So the answer is Paris.")

    graph = build_graph(
        "blendfilter",
        model=ScriptedChat(replies=replies),
        retriever=ListRetriever(documents=documents("It is Paris.", "Rome.")),
    )
    out: Any = graph.invoke({"question": "Where?"})
    short = out["candidates"]["short_answer:0"]
    assert short["passages"] == out["candidates"]["reason:0"]["passages"] != []
    assert [doc.id for doc in out["passages"]] == short["passages"]
