"""The contract suites of retrievers, metrics and model specs bite, and need no pytest to import."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import SkipTest

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from ragweave.evaluation.metrics import f1
from ragweave.testing import (
    CARDS,
    ChatModelSpecTests,
    KnowledgeStoreTests,
    MetricTests,
    RecordingRetriever,
    RetrieverTests,
)
from ragweave.tools.knowledge import KnowledgeBase


def failing(suite: type) -> list[str]:
    """Run each check of a suite; return the names of those that fail, without `test_`."""
    failed = []
    for name in sorted(name for name in dir(suite) if name.startswith("test_")):
        try:
            getattr(suite(), name)()
        except SkipTest:
            continue
        except Exception:  # noqa: BLE001 - a check may break instead of failing
            failed.append(name.removeprefix("test_"))
    return failed


class Sound(RecordingRetriever):
    """A retriever that keeps the contract."""


class Greedy(RecordingRetriever):
    """Puts the last passage first where few are wanted."""

    def _find(self, query: str, k: int) -> list[Document]:
        found = super()._find(query, k)
        return found if k > 2 else found[::-1]


class Fickle(RecordingRetriever):
    """Finds something else each time."""

    turns: Any = None

    def _find(self, query: str, k: int) -> list[Document]:
        self.turns = self.turns or itertools.cycle(range(3))
        found = super()._find(query, 8)
        return found[next(self.turns) :][:k]


class Fragile(RecordingRetriever):
    """Refuses odd queries."""

    def _find(self, query: str, k: int) -> list[Document]:
        if query == "zqxv":
            raise ValueError(query)
        return super()._find(query, k)


@pytest.mark.parametrize(
    ("kind", "checks"),
    [
        (Sound, set()),
        (Greedy, {"k_bounds_a_call", "it_serves_a_method"}),
        (Fickle, {"the_same_query_finds_the_same", "sync_equals_async_equals_batch"}),
        (Fragile, {"no_query_is_an_error"}),
    ],
)
def test_retrievers(kind: type[RecordingRetriever], checks: set[str]) -> None:
    class Tests(RetrieverTests):
        def retriever(self) -> RecordingRetriever:
            return kind(documents=list(CARDS))

    failed = set(failing(Tests))
    assert checks <= failed
    assert bool(failed) is bool(checks)


class F1Tests(MetricTests):
    perfect = (("Ada", ["Ada", "Karl"]),)
    worst = (("Eve", ["Ada", "Karl"]),)
    between = (("Ada Eve", ["Ada", "Karl"]),)
    unordered = (1,)

    def metric(self, *case: Any) -> float:
        return f1(*case)


@pytest.mark.parametrize(
    ("metric", "check"),
    [
        (lambda said, golds: 100 * f1(said, golds), "scores_lie_in_the_range"),
        (lambda said, golds: 1 - f1(said, golds), "perfect_cases_score_best"),
        (lambda said, golds: f1(said, golds[:1]), "order_does_not_matter_where_it_must_not"),
        (lambda said, golds: float(f1(said, golds) > 0), "what_is_between_scores_between"),
    ],
)
def test_metrics(metric: Any, check: str) -> None:
    class Tests(F1Tests):
        def metric(self, *case: Any) -> float:
            return metric(*case)

    assert failing(F1Tests) == []
    assert check in failing(Tests)


def test_a_metric_leaves_its_case_alone() -> None:
    class Tests(MetricTests):
        perfect = (("Ada", ["Ada"]),)
        worst = (("Eve", ["Ada"]),)

        def metric(self, *case: Any) -> float:
            score = f1(*case)
            case[1].append("Zoe")
            return score

    assert failing(Tests) == ["a_score_changes_nothing"]


def test_a_metric_aggregates_within_its_scores() -> None:
    class Tests(F1Tests):
        def aggregate(self, scores: Any) -> float:
            return float(sum(scores))

    assert failing(Tests) == ["scores_aggregate"]


def test_model_specs() -> None:
    class Tests(ChatModelSpecTests):
        spec = "extractive?similarity=lexical"

    class Taken(Tests):
        unknown_setting = "name"

    class Missing(ChatModelSpecTests):
        spec = "extractive:large"

    assert failing(Tests) == []
    assert failing(Taken) == ["an_unknown_setting_is_refused"]
    assert len(failing(Missing)) >= 5


def test_a_store_that_forgets_filters_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tests(KnowledgeStoreTests):
        def made(self, embeddings: Embeddings) -> KnowledgeBase:
            return KnowledgeBase.create(tmp_path / str(next(places)), embeddings=embeddings)

    places = itertools.count()
    assert failing(Tests) == []
    find = KnowledgeBase.as_retriever
    monkeypatch.setattr(KnowledgeBase, "as_retriever", lambda self, k=5, **_: find(self, k))
    assert failing(Tests) == ["filters_choose_by_metadata"]


def test_neither_the_package_nor_the_suites_import_pytest() -> None:
    code = (
        "import sys, ragweave; assert 'ragweave.testing' not in sys.modules; "
        "import ragweave.testing; assert 'pytest' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
