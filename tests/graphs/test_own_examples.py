"""A caller's own prompt shows other examples: what ours say may then be an answer."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave.graphs import METHODS, build_graph

OWN = "{passages}\n\nQuestion: {question}"
DOCS = documents("It was lit long ago.", "It stands at a port.")
REASONED = "It was lit in 1891. So the answer is 1891."


def run(method: str, *replies: str, prompts: dict[str, Any], **options: Any) -> Any:
    model = ScriptedChat(replies=replies)
    retriever = ListRetriever(documents=DOCS)
    graph = build_graph(
        METHODS[method], model=model, retriever=retriever, prompts=prompts, **options
    )
    return graph.invoke({"question": "What is it?"}), model, retriever


@pytest.mark.parametrize(
    ("method", "name", "replies", "options"),
    [
        ("pruning", "pruning", [REASONED], {}),
        ("summary", "summary", [REASONED], {}),
        ("ircot", "ircot", ["So the answer is: Osk."], {"read_by": "chain"}),
        ("sure", "sure", ["(a) 1891"], {}),
    ],
)
def test_an_answer_of_our_examples_is_one_where_the_prompt_does_not_show_it(
    method: str, name: str, replies: list[str], options: dict[str, Any]
) -> None:
    chain = " {chain}" if name == "ircot" else ""
    answer = "Osk" if "Osk" in replies[0] else "1891"
    ours, _, _ = run(method, *replies * 3, prompts={}, **options)
    assert ours["answer"] != answer
    own, model, _ = run(method, *replies, prompts={name: OWN + chain}, **options)
    assert own["answer"] == answer
    assert len(model.seen) == 1


def test_keywords_of_our_examples_are_a_query() -> None:
    graded, keywords = ["Incorrect"] * 2, "Verra, port, river"
    for prompts, searched in (({}, False), ({"keywords": "Search words for: {question}"}, True)):
        _, _, retriever = run("crag", *graded, keywords, "Unknown", prompts=prompts)
        assert (keywords in retriever.queries) is searched
