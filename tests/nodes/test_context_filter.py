"""The context filter's pure parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from tests.scripted import documents

from ragweave.errors import UsageError
from ragweave.nodes.context_filter import ContextFilterOptions, Filters, kept_update, usable
from ragweave.nodes.step import Context
from ragweave.tools.filters import spans_of


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
