"""The contract suites find what breaks the contract."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import SkipTest

from langchain_core.documents import Document

from ragweave.graphs import METHODS
from ragweave.graphs.base import Method
from ragweave.testing import ChatModelSpecTests, MethodTests, RecordingRetriever, RetrieverTests


def failing(suite: type[Any]) -> set[str]:
    """Run each check of a suite; return the names of those that fail, without `test_`."""
    failed = set()
    for name in [name for name in dir(suite) if name.startswith("test_")]:
        try:
            getattr(suite(), name)()
        except SkipTest:
            continue
        except Exception:  # noqa: BLE001 - a check may break instead of failing
            failed.add(name.removeprefix("test_"))
    return failed


def changed(**fields: Any) -> Method:
    ours = METHODS["concat"]
    return Method(**{**{name: getattr(ours, name) for name in ours.__dataclass_fields__}, **fields})


def test_a_sound_method_passes() -> None:
    class Sound(MethodTests):
        method = "concat"
        replies = ("Ada Brenner",)

    assert failing(Sound) == set()


def test_a_method_that_calls_more_than_it_declares_is_found() -> None:
    class Dear(MethodTests):
        method = changed(calls=lambda _options: (0, 0))
        replies = ("Ada Brenner",)

    odd = {"odd_replies_never_raise", "odd_replies_end_under_every_profile"}
    assert failing(Dear) == {"calls_lie_within_the_declared_ones", *odd}


def test_a_method_that_answers_something_else_is_found() -> None:
    class Wrong(MethodTests):
        method = "concat"
        replies = ("Karl Oster",)

    assert "the_script_leads_to_the_answer" in failing(Wrong)


class Fickle(RecordingRetriever):
    """Finds something else each time."""

    turns: Any = None

    def _get_relevant_documents(self, query: str, *, run_manager: Any, k: int = 5) -> list[Document]:
        self.turns = self.turns or itertools.cycle(range(3))
        passages = super()._get_relevant_documents(query, run_manager=run_manager, k=8)
        return passages[next(self.turns) :][:k]


def test_a_retriever_that_changes_its_mind_is_found() -> None:
    class Changes(RetrieverTests):
        def retriever(self) -> Any:
            return Fickle(documents=list(self.documents))

    assert "the_same_query_finds_the_same" in failing(Changes)


def test_a_spec_that_says_nothing_is_found() -> None:
    class Missing(ChatModelSpecTests):
        spec = "no-such-provider:x"

    assert "a_spec_makes_a_chat_model" in failing(Missing)
