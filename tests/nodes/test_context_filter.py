"""The context filter's pure parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import pytest
from tests.scripted import ScriptedChat, documents

from ragweave import build_graph
from ragweave.errors import UsageError
from ragweave.nodes.context_filter import ContextFilterOptions, Filters, kept_update, usable
from ragweave.nodes.step import Context
from ragweave.tools.filters import FILTERS, FilterKind, FilterSettings, FullFilter, Span, spans_of


class Zero:
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [0.0 for _ in pairs]


@pytest.mark.parametrize(
    ("name", "scorer", "answers", "used"),
    [
        ("lexical", None, [], ("lexical", "")),
        ("strinc", None, ["a"], ("strinc", "")),
        ("strinc", None, [], ("lexical", "filter_without_answers")),
        ("cxmi", Zero(), ["a"], ("cxmi", "")),
        ("cxmi", Zero(), [], ("lexical", "filter_without_answers")),
        ("cxmi", None, ["a"], ("lexical", "scorer_missing")),
        ("own", None, [], ("own", "")),
    ],
)
def test_what_can_run(
    name: str, scorer: Zero | None, answers: list[str], used: tuple[str, str]
) -> None:
    assert usable(name, Filters(scorer=scorer), answers) == used


def test_a_packages_filter_is_named_where_the_graph_is_built() -> None:
    kind = FilterKind(name="first_spans", summary="The first.", make=lambda _settings: FullFilter())
    FILTERS.register(kind)
    try:
        graph = build_graph("filco", model=ScriptedChat(), filter="first_spans")
        with pytest.raises(UsageError, match="build_graph\\(…, filter='first_spans'\\)"):
            graph.invoke(
                {"question": "Who?", "passages": ["Ada."]}, context={"filter": "first_spans"}
            )
    finally:
        FILTERS.unregister("first_spans")


def test_own_without_an_object() -> None:
    with pytest.raises(UsageError, match="own"):
        Filters().named(ContextFilterOptions(filter="own"), "own")


@pytest.mark.parametrize("name", ["lexical", "provence"])
@pytest.mark.parametrize("threshold", [-0.1, 5.0])
def test_a_threshold_that_nothing_or_everything_passes_is_refused(
    name: Literal["lexical", "provence"], threshold: float
) -> None:
    with pytest.raises(UsageError, match=f"between 0 and 1 for {name}"):
        ContextFilterOptions(filter=name, threshold=threshold)
    ContextFilterOptions(filter="recomp", threshold=-0.1)


class First:
    """Keeps the first spans."""

    def __init__(self, top: int | None) -> None:
        self.top = top

    def keep(self, _question: str, passages: Any, *, answers: Any = None) -> list[Span]:
        del answers
        return spans_of(passages, "sentence")[: self.top]


@pytest.fixture
def made() -> Iterator[list[int | None]]:
    """What the filter `first` of another package was made with, each time."""
    told: list[int | None] = []

    def make(settings: FilterSettings) -> First:
        if settings.granularity == "passage":
            raise UsageError("first keeps sentences alone")
        told.append(settings.top)
        return First(settings.top)

    FILTERS.register(FilterKind(name="first", summary="The first spans.", make=make))
    yield told
    FILTERS.unregister("first")


def test_a_packages_filter_is_made_once_for_its_settings(made: list[int | None]) -> None:
    graph = build_graph("filco", model=ScriptedChat(), filter="first", top=1)
    assert made == [1], "at build"
    given: Any = {"question": "Where?", "passages": documents("One. Two. Three.")}
    assert [len(out["passages"]) for out in graph.batch([given] * 4)] == [1] * 4
    out = graph.invoke(given, context={"top": 2})
    assert out["passages"][0].page_content == "One. Two."
    graph.invoke(given, context={"top": 2})
    graph.invoke(given)
    assert made == [1, 2]


def test_a_setting_that_a_packages_filter_cannot_take_is_said_at_build(
    made: list[int | None],
) -> None:
    with pytest.raises(UsageError, match="first keeps sentences alone"):
        build_graph("filco", model=ScriptedChat(), filter="first", granularity="passage")
    assert not made


def test_nothing_kept_is_everything_and_saves_nothing() -> None:
    passages = documents("One. Two.", "Three.")
    context = Context("filter_context", ContextFilterOptions())
    update = kept_update(passages, [], context)
    assert [doc.page_content for doc in update["passages"].value] == ["One. Two.", "Three."]
    assert context.usage is not None
    assert context.usage["saved_tokens"] == 0
    assert [note["event"] for note in context.notes] == ["filter_kept_nothing"]


def test_spans_of_other_passages_are_not_invented() -> None:
    passages = documents("One. Two.", "Three.")
    foreign = {**spans_of(passages)[0], "passage_id": "elsewhere"}
    context = Context("filter_context", ContextFilterOptions())
    update = kept_update(passages, [foreign, spans_of(passages)[1]], context)
    assert [doc.page_content for doc in update["passages"].value] == ["Two."]
