"""`build_graph`: what it takes, and what it says of what it cannot take."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, make_dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import pytest
from langchain_core.prompts import ChatPromptTemplate
from tests.scripted import ListRetriever, ScriptedChat, documents

import ragweave
from ragweave import METHODS, build_graph
from ragweave.cli.options import NAMED
from ragweave.errors import UsageError
from ragweave.graphs.method import ARGUMENTS
from ragweave.nodes.options import Options
from ragweave.serving.studio import Sources

GIVEN: Any = {"question": "Where?", "passages": documents("It is in Paris.")}


def test_an_unknown_method() -> None:
    with pytest.raises(
        UsageError, match=r"unknown method 'concat_fp' \(did you mean 'concat_pf'\?\)"
    ):
        build_graph("concat_fp")
    with pytest.raises(UsageError, match=re.escape(", ".join(METHODS))):
        build_graph("nothing like it")


def test_an_unknown_option() -> None:
    with pytest.raises(
        UsageError, match=r"concat has no option 'sample' \(did you mean 'samples'\?\)"
    ):
        build_graph("concat", sample=3)
    with pytest.raises(UsageError, match=r"'top' is an option of filco, adaptive"):
        build_graph("concat", top=2)
    with pytest.raises(UsageError, match="concat has no option 'retrieve'"):
        build_graph("concat", retrieve=True)


@pytest.mark.parametrize("k", [0, -1, 1.5, "3", True])
def test_k_out_of_range(k: Any) -> None:
    with pytest.raises(UsageError, match="k must be a whole number"):
        build_graph("concat", k=k)


def test_an_unknown_prompt() -> None:
    with pytest.raises(
        UsageError, match="unknown prompt 'direct': this method's prompts are concat"
    ):
        build_graph("concat", prompts={"direct": "x"})
    with pytest.raises(UsageError, match=r"'conact' \(did you mean 'concat'\?\)"):
        build_graph("concat", prompts={"conact": "x"})


@pytest.mark.parametrize(
    ("method", "name", "text", "lacking"),
    [
        ("concat", "concat", "Answer: {question}", "{passages}"),
        ("concat", "concat", "Say something.", "{passages} and {question}"),
        ("slimplm", "judge", "Known? {question}", "{draft}"),
    ],
)
def test_a_prompt_without_its_variables_is_refused(
    method: str, name: str, text: str, lacking: str
) -> None:
    with pytest.raises(UsageError, match=f"prompt {name!r} leaves out {re.escape(lacking)}: "):
        build_graph(METHODS[method], prompts={name: text})


@pytest.mark.parametrize(
    "given",
    ["Mine: {question} {passages}", ChatPromptTemplate([("human", "Mine: {question} {passages}")])],
)
def test_a_prompt_is_replaced_by_name(given: Any) -> None:
    model = ScriptedChat(replies=["Unknown"])
    build_graph("concat_pf", model=model, prompts={"post_fusion": given}).invoke(GIVEN)
    assert "Mine:" not in model.seen[0].text
    assert model.seen[1].text.startswith("Mine: Where? <passage 1>")
    assert model.seen[1].passages == ["It is in Paris."]


def test_a_retriever_must_be_one() -> None:
    class Base:
        def as_retriever(self) -> Any:
            return ListRetriever()

    with pytest.raises(UsageError, match=r"not Base: call as_retriever\(\) on it"):
        build_graph("concat", retriever=Base())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"retriever must be a LangChain retriever, not str$"):
        build_graph("concat", retriever="kb")  # type: ignore[arg-type]


def test_a_model_must_be_one() -> None:
    with pytest.raises(UsageError, match="a model must be a LangChain chat model or a spec"):
        build_graph("concat", model=5)  # type: ignore[arg-type]


def test_the_methods() -> None:
    eight = [
        "direct",
        "cot",
        "concat",
        "post_fusion",
        "pruning",
        "summary",
        "concat_pf",
        "pf_concat",
    ]
    assert [name for name in METHODS if name in eight] == eight
    for name, method in METHODS.items():
        assert method.name == name
        assert method.summary.endswith(".")
        assert method.paper
        assert method.best
        assert method.worst


@pytest.mark.parametrize("name", METHODS)
def test_a_method_builds_with_nothing_but_its_name(name: str) -> None:
    try:
        graph = build_graph(name)
    except UsageError as needs:
        assert "=" in str(needs)
    else:
        assert graph.name == name


def test_schemas_are_the_same_for_every_method() -> None:
    shown = set()
    for name in ("direct", "concat", "concat_pf", "pf_concat"):
        graph = build_graph(name)
        fields = (
            graph.get_input_jsonschema()["properties"],
            graph.get_output_jsonschema()["properties"],
        )
        shown.add(tuple(tuple(sorted(one)) for one in fields))
    ((given, returned),) = shown
    assert {"answer_type", "passages", "question"} <= set(given)
    assert {"question", "answer", "status", "passages", "candidates", "usage"} <= set(returned)


def test_names_are_imported_on_first_use() -> None:
    assert ragweave.build_graph is build_graph
    assert set(ragweave.__all__) <= set(dir(ragweave))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = ragweave.nothing


def test_importing_ragweave_loads_nothing_heavy() -> None:
    heavy = [
        "torch",
        "chromadb",
        "openai",
        "langchain_openai",
        "sentence_transformers",
        "langgraph",
    ]
    script = f"import ragweave, sys; print([one for one in {heavy} if one in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_building_a_graph_loads_no_model_library() -> None:
    heavy = ["torch", "chromadb", "openai", "langchain_openai", "sentence_transformers"]
    script = (
        "import sys; from ragweave import build_graph; "
        "graph = build_graph('concat', model='extractive?similarity=lexical'); "
        "graph.invoke({'question': 'How many moons?', 'passages': ['Mars has two moons.']}); "
        f"print([one for one in {heavy} if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_misspelt_argument_is_recognised() -> None:
    with pytest.raises(UsageError, match=r"no option 'modle' \(did you mean 'model'\?\)"):
        build_graph("concat", modle="extractive")
    with pytest.raises(UsageError, match=r"'sampels' \(did you mean 'samples'\?\)"):
        build_graph("concat", sampels=3)


async def test_a_misspelt_key_of_the_input_is_an_error() -> None:
    graph = build_graph("direct", model="extractive?similarity=lexical")
    with pytest.raises(UsageError, match=r"key 'qestion' .*\(did you mean 'question'\?\)"):
        graph.invoke({"qestion": "Why?"})
    with pytest.raises(UsageError, match="key 'chat_history'"):
        await graph.ainvoke({"question": "Why?", "chat_history": []})


@pytest.mark.parametrize(
    "name", ["gold", "resolved_answer_type", "queries", "retrieved", "topic", "usage", "notes"]
)
def test_a_key_that_a_run_would_drop_is_an_error(name: str) -> None:
    with pytest.raises(UsageError, match=f"key '{name}' that this graph does not take"):
        build_graph("concat").invoke({"question": "Why?", name: "x"})


def test_an_output_or_a_state_may_be_given_back_whole() -> None:
    graph = build_graph("concat", model="extractive?similarity=lexical")
    out = graph.invoke({"question": "How many moons has Mars?", "passages": ["It has two moons."]})
    assert graph.invoke(out)["answer"] == out["answer"]
    *_, state = graph.stream(out, stream_mode="values")
    assert graph.invoke({**state, "gold_answers": ["two"]})["answer"] == out["answer"]
    with pytest.raises(UsageError, match="key 'qestion'"):
        graph.invoke({**out, "qestion": "Why?"})


def test_a_second_retriever_is_for_methods_that_look_again() -> None:
    second = ListRetriever(documents=documents("Mars has two moons."))
    assert build_graph("crag", second_retriever=second)
    with pytest.raises(UsageError, match="concat never looks again: leave out second_retriever"):
        build_graph("concat", second_retriever=second)


def with_option(name: str, hint: Any, default: Any = None) -> Any:
    """Return `concat` with an option more."""
    kind = make_dataclass(
        "MoreOptions", [(name, hint, default)], bases=(Options,), frozen=True, kw_only=True
    )
    return replace(METHODS["concat"], name="more", options=kind)


@pytest.mark.parametrize("name", ["judge", "scorer", "prompts", "state", "generator", "kb"])
def test_an_option_that_means_something_else_for_every_method_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"more: an option cannot be called '{name}'"):
        with_option(name, str, "")


@pytest.mark.parametrize("name", ["given", "paper", "settled", "sampling", "as_given"])
def test_an_option_that_options_use_themselves_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"more: an option cannot be called '{name}': Options"):
        with_option(name, str, "")


@pytest.mark.parametrize(
    "hint", [list[str], dict[str, int], Path, tuple[int, str], tuple, Any, list[str] | None]
)
def test_an_option_of_a_type_that_cannot_be_checked_is_refused(hint: Any) -> None:
    with pytest.raises(UsageError, match="more: the option 'words' cannot have the type"):
        with_option("words", hint)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Literal["auto"] | int | None, 3),
        (tuple[Literal["a", "b"], ...], ("a",)),
        (tuple[str, ...] | None, ("a",)),
        (float | None, 0.5),
    ],
)
def test_an_option_of_a_type_that_can_be_checked_is_taken(hint: Any, value: Any) -> None:
    method = with_option("words", hint)
    assert build_graph(method, words=value).invoke(GIVEN)["question"] == "Where?"


def test_files_are_options() -> None:
    with pytest.raises(UsageError, match="concat: files names 'lexicon', which is no option"):
        replace(METHODS["concat"], files=frozenset({"lexicon"}))


def test_an_option_called_filter_may_be_a_methods_own() -> None:
    method = with_option("filter", Literal["strict", "loose"], "loose")
    schema = build_graph(method, filter="strict").builder.context_schema
    assert schema is not None
    assert schema().filter == "strict"
    with pytest.raises(UsageError, match="filter must be one of strict, loose, not 'hard'"):
        build_graph(method, filter="hard")


def test_the_names_that_no_option_can_have_are_all_that_are_taken() -> None:
    arguments = set(signature(build_graph).parameters) - {"filter", "options"}
    assert arguments | {*NAMED} | {one.name for one in fields(Sources)} == ARGUMENTS
