"""What a remote caller may choose, without a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.graphs import METHODS
from ragweave.nodes.options import Options
from ragweave.serving.studio import (
    OPERATOR,
    check_context,
    factory,
    served,
    studio_chat,
    studio_graph,
    studio_options,
    studio_picture,
)
from ragweave.tools.knowledge import KnowledgeBase, Settings

QUESTION = {"question": "What does BlendFilter blend?"}


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("RAGWEAVE_MODEL", "extractive?similarity=lexical")
    return served(studio_graph("concat"))


def test_the_schemas_are_slim(graph: Any) -> None:
    given = graph.get_input_jsonschema()
    assert set(given["properties"]) == {"question"}
    assert given["required"] == ["question"]
    settings = set(graph.get_context_jsonschema()["properties"])
    assert {"k", "search", "timeout"} <= settings
    assert not settings & OPERATOR


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("TOP", "2", 2),
        ("TOP", "none", None),
        ("TOP", "auto", "auto"),
        ("CONSTRAIN", "false", False),
    ],
)
def test_the_environment_sets_options_that_may_be_words(
    name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"RAGWEAVE_{name}", text)
    assert getattr(studio_options(METHODS["filco"]), name.lower()) == value


def test_a_conversation_takes_messages_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_MODEL", "extractive?similarity=lexical")
    chat = studio_chat("concat", {"k": 3})
    assert set(chat.get_input_jsonschema()["properties"]) == {"messages"}
    assert not set(chat.get_context_jsonschema()["properties"]) & OPERATOR
    out = chat.invoke({"messages": [("user", QUESTION["question"])]})
    assert out["citations"]
    assert len(out["passages"]) == 3
    with pytest.raises(UsageError, match="input is its messages; 'question' cannot be"):
        chat.invoke({**QUESTION, "messages": []})
    with pytest.raises(UsageError, match="kb cannot be chosen by a run"):
        chat.invoke({"messages": [], "kb": "/etc"})


def test_no_path_of_the_server_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, other = tmp_path / "papers", tmp_path / "elsewhere.txt"
    for name in ("old/bridge.txt", "new/bridge.txt"):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f"The bridge of Varn is {name[:3]}.", "utf-8")
    kb = tmp_path / "kb"
    with KnowledgeBase.create(kb, settings=Settings(embedding=None)) as base:
        base.index_paths([folder])
        assert base.indexed_folder == str(folder)
        monkeypatch.setenv("RAGWEAVE_KB", str(kb))
        monkeypatch.setenv("RAGWEAVE_MODEL", "extractive?similarity=lexical")
        asked = studio_graph("concat", {"k": 5})
        other.write_text("The bridge of Varn leads elsewhere.", "utf-8")
        base.index_paths([other])
        assert base.indexed_folder == str(tmp_path)
    out = asked.invoke({"question": "What is the bridge of Varn?"})
    shown = {doc.metadata["source"] for doc in out["passages"]}
    assert shown == {"old/bridge.txt", "new/bridge.txt", "elsewhere.txt"}
    chat = studio_chat("concat").invoke({"messages": [("user", "What is the bridge of Varn?")]})
    assert str(tmp_path) not in repr(chat)


def test_a_question_is_answered_sync_and_async(graph: Any) -> None:
    assert graph.invoke(QUESTION)["answer"] == asyncio.run(graph.ainvoke(QUESTION))["answer"]
    copy = graph.copy(update={"name": "other"})
    with pytest.raises(UsageError):
        copy.invoke({**QUESTION, "kb": "/etc"})


@pytest.mark.parametrize("name", ["gold_answers", "passages", "kb", "model", "training", "judge"])
def test_more_than_a_question_is_refused(graph: Any, name: str) -> None:
    with pytest.raises(UsageError, match=rf"\b{name}.* cannot be"):
        graph.invoke({**QUESTION, name: "x"})
    with pytest.raises(UsageError, match=rf"\b{name}.* cannot be"):
        asyncio.run(graph.ainvoke({**QUESTION, name: "x"}))


@pytest.mark.parametrize("method", ["concat", "skr_knn", "filco", "adaptive"])
@pytest.mark.parametrize("name", sorted(OPERATOR))
def test_no_setting_opens_a_file_or_a_model(method: str, name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} cannot be chosen by a run"):
        check_context(METHODS[method], {name: "/etc/passwd"})
    config = {"configurable": {name: "/etc/passwd"}}
    with pytest.raises(UsageError, match=f"{name} cannot be chosen by a run"):
        served(studio_graph("concat")).invoke(QUESTION, config)


def test_what_the_operator_set_may_be_sent_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_KB", "/srv/kb")
    check_context(METHODS["concat"], {"kb": "/srv/kb", "k": 3})
    check_context(METHODS["concat"], studio_options(METHODS["concat"]))
    check_context(METHODS["concat"], None)
    with pytest.raises(UsageError, match="RAGWEAVE_KB"):
        check_context(METHODS["concat"], {"kb": "/srv/other"})


def test_every_setting_that_names_a_file_or_model_is_the_operators() -> None:
    """A new option of free text is looked at here before a remote caller may set it."""
    free = {
        name
        for method in METHODS.values()
        for name, one in served(studio_picture(method.name))
        .get_context_jsonschema()["properties"]
        .items()
        if "enum" not in repr(one) and "const" not in repr(one) and "string" in repr(one)
    }
    assert free == {"lead"}


@pytest.mark.parametrize("whole", [False, True], ids=["one setting", "the whole form"])
def test_a_profile_that_a_run_chooses_brings_its_settings(whole: bool) -> None:
    schema = studio_graph("concat").get_context_jsonschema()
    assert schema is not None
    shown = {name: one["default"] for name, one in schema["properties"].items()}
    graph = studio_graph("concat", {**(shown if whole else {}), "profile": "sure"})
    kind = graph.builder.context_schema
    assert kind is not None
    options = kind()
    assert (options.profile, options.k, options.unknown) == ("sure", 10, False)


@dataclass(frozen=True, kw_only=True)
class LexiconOptions(Options):
    """Options of a method that reads a file."""

    lexicon: str = ""
    """The file."""


LEXICAL = replace(
    METHODS["concat"], name="lexical_concat", options=LexiconOptions, files=frozenset({"lexicon"})
)


def run_of(context: Any) -> Any:
    return SimpleNamespace(execution_runtime=context and SimpleNamespace(context=context))


def test_a_method_that_is_not_registered_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_MODEL", "extractive?similarity=lexical")
    assert LEXICAL.name not in METHODS
    make = factory(LEXICAL)
    drawn = asyncio.run(make(run_of(None)))
    assert "k" in (drawn.get_context_jsonschema() or {})["properties"]
    assert asyncio.run(make(run_of({"k": 2}))).invoke(QUESTION)["status"] == "answered"


def test_a_file_that_a_methods_option_names_is_the_operators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAGWEAVE_LEXICON", "/srv/lexicon")
    assert getattr(studio_options(LEXICAL), "lexicon", "") == "/srv/lexicon"
    check_context(LEXICAL, {"lexicon": "/srv/lexicon", "k": 3})
    with pytest.raises(UsageError, match="lexicon cannot be chosen by a run"):
        check_context(LEXICAL, {"lexicon": "/etc/passwd"})
    for graph in (served(studio_picture(LEXICAL)), studio_chat(LEXICAL)):
        assert "lexicon" not in (graph.get_context_jsonschema() or {})["properties"]
    given = {"configurable": {"lexicon": "/etc/passwd"}}
    with pytest.raises(UsageError, match="lexicon cannot be chosen by a run"):
        served(studio_graph(LEXICAL)).invoke(QUESTION, given)


@pytest.mark.parametrize("name", ["chat", "served", "factory", "studio_graph", "sorted"])
def test_no_package_takes_the_place_of_what_the_module_uses(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    METHODS.register(replace(METHODS["concat"], name=name))
    try:
        spec = find_spec("ragweave.serving.studio")
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        METHODS.unregister(name)
    made = getattr(module, name, None)
    assert made is None or made.__qualname__ == name
    assert module.concat.__name__ == "concat"
    assert f"the method {name!r} (this session) is called as something of" in caplog.text
