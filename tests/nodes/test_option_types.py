"""Option values of the wrong type are refused, by name, in one line."""

from __future__ import annotations

from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import UsageError
from ragweave.graphs import METHODS, build_graph
from ragweave.graphs.build import method_options
from ragweave.nodes.options import typed

NAN = float("nan")
CASES = [
    ("slimplm", "proxy_temperature", "hot"),
    ("slimplm", "proxy_top_p", "x"),
    ("slimplm", "question_judge", "false"),
    ("slimplm", "question_judge", 0),
    ("slimplm", "margin", NAN),
    ("slimplm", "margin", "x"),
    ("slimplm", "max_passages", "many"),
    ("slimplm", "proxy_tokens", 1.5),
    ("filco", "threshold", "x"),
    ("flare", "threshold", "x"),
    ("flare", "threshold", NAN),
    ("skr_knn", "prior", "x"),
    ("skr_knn", "training", 5),
    ("blendfilter", "queries", None),
    ("blendfilter", "queries", 5),
    ("blendfilter", "queries", "question"),
    ("blendfilter", "queries", [["question"]]),
    ("blendfilter", "knowledge_filter", "no"),
    ("blendfilter", "knowledge_filter", None),
    ("react", "stop_sequences", "no"),
    ("concat", "constrain", "yes"),
    ("concat", "constrain", 1),
]
OPTIONS = [
    (name, field, hint)
    for name, method in METHODS.items()
    for field, hint in get_type_hints(method.options).items()
]


@pytest.mark.parametrize(("method", "option", "value"), CASES)
def test_a_value_of_the_wrong_type(method: str, option: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{option} must be ") as caught:
        method_options(METHODS[method], {option: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("filter_name", ["lexical", "strinc", "cxmi", "llm", "full"])
def test_filcos_threshold_is_a_number_whatever_the_filter(filter_name: str) -> None:
    with pytest.raises(UsageError, match="threshold must be a number"):
        method_options(METHODS["filco"], {"filter": filter_name, "threshold": "x"})


@pytest.mark.parametrize(("method", "option", "hint"), OPTIONS)
def test_every_option_of_every_method_refuses_what_it_cannot_be(
    method: str, option: str, hint: Any
) -> None:
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    wrong: list[Any] = [object(), {}, b"x", NAN, "no such thing"]
    if NoneType not in kinds:
        wrong.append(None)
    if bool not in kinds:
        wrong.append(True)
    if str in kinds:
        wrong.remove("no such thing")
    for value in wrong:
        with pytest.raises(UsageError, match=f"^{option} must be "):
            method_options(METHODS[method], {option: value})


def test_what_stands_for_a_value_is_taken() -> None:
    assert typed("threshold", 1, float) == 1
    assert typed("timeout", 3, float | None) == 3
    assert typed("timeout", None, float | None) is None
    assert typed("training", Path("a") / "b.jsonl", str) == str(Path("a") / "b.jsonl")
    assert typed("queries", ["a", "b"], tuple[Literal["a", "b"], ...]) == ("a", "b")


@given(st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.text()))
def test_a_value_is_given_back_or_refused(value: Any) -> None:
    for hint in (bool, int, float, str, Literal[1, "a"], int | None, tuple[str, ...]):
        try:
            taken = typed("it", value, hint)
        except UsageError:
            continue
        assert taken == value or list(taken) == value
        assert isinstance(taken, bool) == isinstance(value, bool)
        if hint in (bool, int, float):
            assert type(taken) is hint or (hint is float and type(taken) is int)


def test_a_runs_context_is_checked_too() -> None:
    graph = build_graph("direct")
    asked = {"question": "What is two and two?"}
    with pytest.raises(UsageError, match="no option 'nonsense'; options: k, "):
        graph.invoke(asked, context={"nonsense": 1})
    with pytest.raises(UsageError, match="k must be a whole number, not '3'"):
        graph.invoke(asked, context={"k": "3"})
    assert graph.invoke(asked, context={"k": 3})["question"] == asked["question"]
