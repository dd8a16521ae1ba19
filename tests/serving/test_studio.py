"""The graphs as LangGraph Studio and the Agent Server get them; the real server over all of them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient
from tests.servers import free_port, wait_for

from ragweave import KnowledgeBase
from ragweave.errors import UsageError
from ragweave.graphs import METHODS
from ragweave.serving import studio
from ragweave.testing import ModelCall, ScriptedModel

ROOT = Path(__file__).parents[2]
QUESTION = {"question": "What does BlendFilter blend?"}
RUNNING: Any = SimpleNamespace(execution_runtime=object())
DRAWN: Any = SimpleNamespace(execution_runtime=None)


def test_langgraph_json_names_the_chat_and_every_method() -> None:
    graphs = json.loads((ROOT / "langgraph.json").read_text("utf-8"))["graphs"]
    assert set(graphs) == {"chat", *METHODS}
    for name, graph in graphs.items():
        assert graph["path"] == f"ragweave.serving.studio:{name}"
        assert callable(vars(studio)[name])


async def test_the_environment_sets_models_passages_and_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with KnowledgeBase.create(tmp_path / "kb") as kb:
        (tmp_path / "harbour.txt").write_text("The harbour of Varn freezes in January.", "utf-8")
        kb.index_paths([tmp_path / "harbour.txt"])
    monkeypatch.setenv("RAGWEAVE_KB", str(tmp_path / "kb"))
    monkeypatch.setenv("RAGWEAVE_SEARCH", "bm25")
    monkeypatch.setenv("RAGWEAVE_K", "3")
    graph = await studio.factory("concat")(RUNNING)
    assert graph.get_context_jsonschema()["properties"]["k"]["default"] == 3  # type: ignore[index]
    out = await graph.ainvoke({"question": "When does the harbour of Varn freeze?"})
    assert [doc.metadata["source"] for doc in out["passages"]] == ["harbour.txt"]
    monkeypatch.setenv("RAGWEAVE_K", "many")
    with pytest.raises(UsageError, match="k: "):
        await studio.factory("concat")(RUNNING)


@pytest.mark.parametrize(("method", "answer"), [("table_query", "8"), ("exhaustive", "1 (read 8 of 8 documents)")])
async def test_questions_about_everything_see_all_of_the_knowledge_base_but_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, method: str, answer: str
) -> None:
    def reply(call: ModelCall) -> str:
        task = '{"operation": "count", "condition": "Is it P3?"}'
        replies = {"plan_reading": task, "write": "SELECT count(*) FROM staff", "word": "8"}
        return replies.get(call.node) or ("Yes" if "P3" in call.text.partition("</passage>")[0][-40:] else "No")

    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        (tmp_path / "staff.csv").write_text("name\n" + "".join(f"P{number}\n" for number in range(8)))
        kb.index_paths([tmp_path / "staff.csv"])
    monkeypatch.setattr(studio, "chat_model", lambda _spec: ScriptedModel(script=reply))
    for name, value in {"KB": str(tmp_path / "kb"), "MODEL": f"scripted for {method}"}.items():
        monkeypatch.setenv(f"RAGWEAVE_{name}", value)
    out = await (await studio.factory(method)(RUNNING)).ainvoke({"question": "How many are P3?"})
    assert out["answer"] == answer
    assert str(tmp_path) not in str(out)


async def test_the_restater_is_a_model_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def reply(spec: str) -> Any:
        return lambda call: asked.append(f"{spec} {call.node}") or "Ada Brenner"

    monkeypatch.setattr(studio, "chat_model", lambda spec: ScriptedModel(script=reply(spec)))
    for name in ("model", "restater"):
        monkeypatch.setenv(f"RAGWEAVE_{name.upper()}", name)
    turns = [HumanMessage("Who built it?"), AIMessage("Ada."), HumanMessage("And when?")]
    await (await studio.chat(RUNNING)).ainvoke({"messages": turns})
    assert {line.split()[0] for line in asked if "restate" in line} == {"restater"}


async def test_a_run_sets_options_but_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_TRAINING", "/srv/needed.jsonl")
    graph = await studio.factory("skr_knn")(RUNNING)
    properties = (graph.get_context_jsonschema() or {})["properties"]
    assert "k" in properties
    assert not {"training", "embedding"} & properties.keys()
    with pytest.raises(UsageError, match="training cannot be set by a run"):
        await graph.ainvoke(QUESTION, context={"training": "/etc/passwd"})
    conversation = await studio.chat(RUNNING)
    assert conversation.get_context_jsonschema() is not None


async def test_what_the_operator_sets_is_the_most_that_a_caller_may(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"SAMPLES": "2", "K": "3", "TIMEOUT": "60", "MAX_CALLS": "9"}.items():
        monkeypatch.setenv(f"RAGWEAVE_{name}", value)
    chat, graph = await studio.chat(RUNNING), await studio.factory("iter_retgen")(RUNNING)
    for served in (chat, graph):
        properties = (served.get_context_jsonschema() or {})["properties"]
        maxima = {"samples": 2, "k": 3, "timeout": 60, "max_calls": 9, "reply_tokens": 5120}
        assert {name: properties[name].get("maximum") for name in maxima} == maxima
    assert properties["max_rounds"]["maximum"] == 30
    over: list[dict[str, Any]] = [
        {"k": 4},
        {"samples": 3},
        {"timeout": 1e9},
        {"timeout": None},
        {"max_calls": None},
        {"reply_tokens": 6000},
        {"max_rounds": 31},
    ]
    for context in over:
        with pytest.raises(UsageError, match=f"{next(iter(context))} may be at most"):
            await graph.ainvoke(QUESTION, context=context)
    out = await graph.ainvoke(QUESTION, context={"k": 2, "samples": 1, "timeout": 30, "max_rounds": 2})
    assert out["status"] == "answered"


@pytest.mark.parametrize("name", list(METHODS))
async def test_a_graph_is_drawn_without_opening_anything(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_MODEL", "llamacpp:/no/such/file.gguf")
    monkeypatch.setenv("RAGWEAVE_KB", "/no/such/kb")
    graph = await studio.factory(name)(DRAWN)
    assert "begin" in graph.get_graph().nodes


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, socket_enabled_for_module: None) -> Iterator[SyncLangGraphClient]:
    """The real Agent Server over `langgraph.json`, with the embedded default and no key."""
    if importlib.util.find_spec("langgraph_api") is None:
        pytest.skip('the Agent Server is not installed: pip install "ragweave[studio]"')
    folder = tmp_path_factory.mktemp("studio")
    port = free_port()
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--host", "127.0.0.1"]
    command += ["--port", str(port), "--config", str(ROOT / "langgraph.json")]
    env = {**os.environ, "RAGWEAVE_K": "4"}
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=folder)
        try:
            wait_for(port, server, (folder / "log").read_text)
            sdk = get_sync_client(url=f"http://127.0.0.1:{port}")
            yield sdk
            sdk.http.client.close()
        finally:
            server.terminate()
            server.wait(timeout=30)


@pytest.mark.loopback
def test_the_server_shows_forms_and_runs_methods(client: SyncLangGraphClient) -> None:
    assistants = {assistant["graph_id"]: assistant["assistant_id"] for assistant in client.assistants.search(limit=100)}
    assert set(assistants) == {"chat", *METHODS}
    form = (client.assistants.get_schemas(assistants["concat"])["context_schema"] or {})["properties"]
    assert form["k"]["default"] == 4
    for name in ("concat", "crag", "adaptive"):
        out: Any = client.runs.wait(None, name, input=QUESTION, context={"k": 2})
        assert out["status"] in ("answered", "unknown"), out
    with pytest.raises(Exception, match="needs training questions"):  # the caller's path is dropped
        client.runs.wait(None, "skr_knn", input=QUESTION, context={"training": "/etc/passwd"})


@pytest.mark.loopback
def test_the_server_runs_a_conversation(client: SyncLangGraphClient) -> None:
    thread = client.threads.create()["thread_id"]
    for turn, question in enumerate(("What does BlendFilter blend?", "How many calls does it take?"), start=1):
        asked: Any = {"messages": [{"role": "user", "content": question}]}
        out: Any = client.runs.wait(thread, "chat", input=asked)
        assert len(out["messages"]) == 2 * turn
        assert out["structured_response"]["answer"] == out["answer"]
