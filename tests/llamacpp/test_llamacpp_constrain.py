"""Methods over a model of random weights: held to their form, all its replies can be read."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.scripted import OwnListRetriever, documents

from ragweave import build_graph

FACTS = documents("Ada built it.", "A river.", "Rain fell.")
UNREAD = {"filter_unparsed", "judge_unparsed", "need_unparsed"}


def events(graph: Any) -> set[str]:
    """Run a graph; return the names of its notes."""
    return {
        note["event"]
        for step in graph.stream({"question": "Did Ada build it?"}, stream_mode="updates")
        for update in step.values()
        if isinstance((update or {}).get("notes"), list)
        for note in update["notes"]
    }


METHODS: list[tuple[str, dict[str, Any]]] = [
    ("blendfilter", {}),
    ("self_eval", {}),
    ("slimplm", {"rewrite": False}),
    ("filco", {"filter": "llm"}),
]


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_random_weights_still_say_what_can_be_read(make_chat, method, options) -> None:
    model = make_chat(n_ctx=8192, temperature=1.0, seed=3)
    made = {"model": model, "retriever": OwnListRetriever(documents=FACTS), "k": 3, **options}
    free = events(build_graph(method, **made, constrain=False))
    held = events(build_graph(method, **made, constrain=True))
    assert free & UNREAD
    assert not held & UNREAD


@pytest.mark.parametrize("method", ["react", "self_ask", "chain_of_note"])
def test_no_limit_cuts_a_step_before_its_form_is_whole(make_chat, method) -> None:
    # Self-Ask's reader writes free text.
    options = {"second_look": False} if method == "self_ask" else {}
    model = make_chat(n_ctx=16384, temperature=1.0, seed=3, max_tokens=None)
    graph = build_graph(method, model=model, retriever=OwnListRetriever(documents=FACTS), **options)
    assert "reply_limit_reached" not in events(graph)


def test_yes_or_no_answers_come_in_their_form(make_chat) -> None:
    made = {
        "model": make_chat(n_ctx=4096, seed=5),
        "retriever": OwnListRetriever(documents=FACTS),
        "answer_type": "yes_no",
    }
    form = re.compile("Yes|No|Unknown")
    for constrain in (False, True):
        graph = build_graph("concat", **made, samples=4, constrain=constrain)
        out = graph.invoke({"question": "Did Ada build it?"})
        replies = [one["reply"] for one in out["candidates"].values()]
        assert [form.fullmatch(reply) is not None for reply in replies] == [constrain] * 4
