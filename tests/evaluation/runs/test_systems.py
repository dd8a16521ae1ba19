"""Methods with options, from text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.evaluation.towns import towns

from ragweave.errors import UsageError
from ragweave.evaluation.runs import parse_systems, plan, system
from ragweave.evaluation.runs.cluster import _loads_a_model
from ragweave.evaluation.studies import STUDIES, runs_of
from ragweave.graphs import METHODS
from ragweave.tools.knowledge import KnowledgeBase, Settings


def test_methods_with_options_in_brackets() -> None:
    found = parse_systems(
        "direct, concat[k=10,order=reversed],blendfilter[queries=question+internal]"
    )
    assert [one.label for one in found] == [
        "direct",
        "concat[k=10,order=reversed]",
        "blendfilter[queries=question+internal]",
    ]
    assert found[1].options == {"k": 10, "order": "reversed"}
    assert found[2].resolved().queries == ("question", "internal")  # type: ignore[attr-defined]


def test_all_is_every_method() -> None:
    assert [one.method for one in parse_systems("all")] == list(METHODS)


def test_shared_options_go_to_the_methods_that_have_them() -> None:
    direct, blend = parse_systems("direct,blendfilter[k=3]", {"k": 8, "hops": 2})
    assert (direct.options, blend.options) == ({"k": 8}, {"k": 3, "hops": 2})
    assert direct.label == "direct"


def test_a_label_tells_the_options() -> None:
    assert system("concat", k=3).label == "concat[k=3]"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("concatt", "did you mean 'concat'"),
        ("concat[kk=3]", "no option 'kk'"),
        ("concat[k=0]", "k must be a whole number"),
        ("concat,concat", "'concat' is listed twice"),
        ("concat[k=3", "give names separated by commas"),
        ("", "give names separated by commas"),
    ],
)
def test_what_is_no_list_of_methods(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("[", r"\[")):
        parse_systems(text)


def test_a_shared_option_that_no_method_has() -> None:
    with pytest.raises(UsageError, match="none of these methods has an option 'hops'"):
        parse_systems("direct", {"hops": 2})


def test_systems_of_one_label_are_refused_when_the_run_is_planned(tmp_path: Path) -> None:
    (study,) = runs_of(STUDIES["k"], ["concat", "concat"], ["1"])
    for systems, label in (
        ([system("concat", "mine"), system("direct", "mine")], "mine"),
        (study.systems, "concat[k=1]"),
    ):
        with pytest.raises(UsageError, match=re.escape(f"methods: {label!r} is listed twice")):
            plan(f"jsonl:{towns(tmp_path)}", systems, {"answer": "scripted"})


@pytest.mark.parametrize(
    ("methods", "settings", "loads"),
    [
        ("direct,concat,filco", {}, False),
        ("concat,filco[filter=recomp]", {}, True),
        ("filco[filter=provence]", {}, True),
        ("skr_knn", {}, True),
        ("adaptive_rag[router=folder]", {}, True),
        ("concat", {"rerank": "minilm"}, True),
        ("concat", {"kb": "vectors"}, True),
        ("concat", {"kb": "vectors", "retriever": "bm25"}, False),
        ("concat", {"kb": "words"}, False),
        ("crag", {"second_retriever": "dense:vectors"}, True),
    ],
)
def test_what_holds_weights_has_a_node_for_itself(
    methods: str,
    settings: dict[str, Any],
    loads: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @contextmanager
    def opened(kb: str, **_: Any) -> Iterator[Any]:
        yield SimpleNamespace(settings=Settings(embedding="minilm" if kb == "vectors" else None))

    monkeypatch.setattr(KnowledgeBase, "open", opened)
    monkeypatch.setattr("ragweave.nodes.adaptive_rag.check_router", lambda *_, **__: None)
    made = plan(f"jsonl:{towns(tmp_path, 2)}", parse_systems("direct"), {"answer": "openai:m"})
    systems = tuple(parse_systems(methods))
    assert _loads_a_model(replace(made, systems=systems, **settings)) is loads
