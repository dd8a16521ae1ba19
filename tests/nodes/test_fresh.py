"""What a question starts with, derived from the fields of the state."""

from __future__ import annotations

import operator
from typing import Annotated, Any, Literal, NotRequired

import pytest
from langgraph.channels import EphemeralValue, UntrackedValue
from langgraph.managed import RemainingSteps
from langgraph.types import Overwrite
from typing_extensions import TypedDict

from ragweave.errors import UsageError
from ragweave.nodes.begin import begin_step, fresh
from ragweave.nodes.options import Options
from ragweave.state import RAGState, no_usage


class Score(TypedDict):
    """A record of someone's own."""

    value: float
    by_name: dict[str, int]
    why: NotRequired[str]


class MyState(RAGState):
    """A state of someone's own, with a field of each sort."""

    text: str
    count: int
    flag: bool
    names: list[str]
    table: dict[str, list[int]]
    maybe: Score | None
    score: Score
    form: Literal["", "a", "b"]
    merged: Annotated[list[str], operator.add]
    passing: Annotated[str, EphemeralValue]
    kept_out: Annotated[float, UntrackedValue]
    steps_left: RemainingSteps


def test_own_fields_start_empty_past_their_reducers() -> None:
    update: Any = fresh(MyState)
    own = {name: update.get(name) for name in MyState.__annotations__.keys() - set(fresh(RAGState))}
    expected = {
        "text": "",
        "count": 0,
        "flag": False,
        "names": [],
        "table": {},
        "maybe": None,
        "score": {"value": 0.0, "by_name": {}},
        "form": "",
        "merged": Overwrite([]),
    }
    assert {name: value for name, value in own.items() if name in expected} == expected
    assert not {"passing", "kept_out", "steps_left"} & set(update)


def test_our_own_fields_start_as_they_always_did() -> None:
    update: Any = fresh(RAGState)
    assert update["usage"] == Overwrite(no_usage())
    for name in ("candidates", "retrieved", "kept", "verdicts", "augmented"):
        assert update[name] == Overwrite({})
    assert update["notes"] == Overwrite([])
    assert (update["known"], update["truncated"], update["hops"]) == (None, False, [])


def test_each_question_gets_values_of_its_own() -> None:
    one: Any = fresh(MyState)
    one["names"].append("a")
    two: Any = fresh(MyState)
    assert two["names"] == []


def test_a_field_without_an_empty_value_is_refused_when_the_graph_is_built() -> None:
    class Chosen(RAGState):
        """Neither choice is empty."""

        choice: Literal["left", "right"]

    with pytest.raises(UsageError, match=r"'choice' of Chosen has no empty value.*\| None"):
        begin_step(Options(), Chosen)
