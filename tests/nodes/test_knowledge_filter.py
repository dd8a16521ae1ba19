"""The filter's pure parts: topics read off replies, a branch for each set."""

from __future__ import annotations

import pytest
from tests.scripted import documents

from ragweave.nodes.knowledge_filter import filter_branches, read_topic


@pytest.mark.parametrize(
    ("reply", "topic"),
    [
        ("bridges", "bridges"),
        ("The topic is related to bridges.", "bridges"),
        ("**Topic:** bridges", "bridges"),
        ("Answer: The topic is related to bridges and rivers.\nSure.", "bridges and rivers"),
        ("<think>hm</think>\nbridges\nbridges", "bridges"),
        ("", ""),
        ("...", ""),
        ("The topic is American actors.", "American actors"),
        ("The question is related to the topic of astronomy.", "astronomy"),
        ("This question is related to astronomy.", "astronomy"),
        ("The general topic of the question is film.", "film"),
        ("Sure! The topic is related to geography", "geography"),
        ("It is about bridges.", "bridges"),
        ("The United States", "The United States"),
        ("IT security", "IT security"),
        ("The is", "The is"),
        ("word " * 100, ""),
    ],
)
def test_topics(reply: str, topic: str) -> None:
    assert read_topic(reply) == topic


def test_a_branch_for_each_set_that_holds_anything() -> None:
    state = {
        "question": "Who?",
        "topic": "bridges",
        "queries": {"question": "Who?", "external": "x", "internal": "y"},
        "retrieved": {"question": documents("a", "b"), "external": [], "unused": documents("c")},
        "kept": {},
        "passages": [],
    }
    sends = filter_branches(state, "knowledge_filter")
    assert [send.arg["query_key"] for send in sends] == ["question"]
    assert len(sends[0].arg["passages"]) == 2


def test_given_passages_are_the_only_set() -> None:
    state = {
        "question": "Who?",
        "topic": "",
        "queries": {"question": "Who?"},
        "retrieved": {"question": documents("a")},
        "kept": {},
        "passages": documents("given"),
    }
    sends = filter_branches(state, "f")
    assert [send.arg["query_key"] for send in sends] == ["input"]
