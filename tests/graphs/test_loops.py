"""Loops: the steps that another round takes are those of the wiring."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ragweave.graphs import iter_retgen
from ragweave.graphs.build import drawable
from ragweave.nodes import flare, react, self_ask
from ragweave.nodes.rounds import Loop, round_key

LOOPS = {
    "iter_retgen": iter_retgen.LOOP,
    "react": react.LOOP,
    "self_ask": self_ask.LOOP,
    "flare": flare.LOOP,
}


def longest(edges: set[tuple[str, str]], node: str, goal: str) -> int:
    """Return how many nodes the longest simple path from `node` takes to `goal`, both counted."""

    def length(here: str, seen: frozenset[str]) -> int:
        if here == goal and seen:
            return 1
        onward = [end for start, end in edges if start == here and (end == goal or end not in seen)]
        return 1 + max((length(end, seen | {here}) for end in onward), default=-1000)

    return length(node, frozenset())


@pytest.mark.parametrize("method", LOOPS)
def test_the_budget_is_the_longest_way_round_and_out(method: str) -> None:
    loop: Loop = LOOPS[method]
    edges = {(one.source, one.target) for one in drawable(method).get_graph().edges}
    path = [loop.node, *loop.round, loop.node, *loop.ending, "__end__"]
    assert set(pairwise(path)) <= edges
    inside = {edge for edge in edges if "__end__" not in edge and not set(loop.ending) & set(edge)}
    assert longest(inside, loop.node, loop.node) == 2 + len(loop.round)
    assert loop.steps == len(path) - 1


def test_a_round_is_the_last_where_the_option_or_the_recursion_limit_says_so() -> None:
    loop = Loop(node="a", round=("b", "c"), ending=("d",))
    assert loop.steps == 5
    plenty, short = {"remaining_steps": 5}, {"remaining_steps": 4}
    assert [loop.is_last(plenty, done=done, most=2) for done in (1, 2)] == [False, True]
    assert loop.is_last(short, done=0, most=2)


def test_queries_are_named_by_the_retrievals_before_them() -> None:
    assert [round_key(number) for number in (0, 1, 10)] == ["round_0", "round_1", "round_10"]
