"""The real Agent Server over every method, with the embedded default and no key."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from ragweave.graphs import METHODS
from ragweave.serving.studio import OPERATOR

pytestmark = [
    pytest.mark.loopback,
    pytest.mark.skipif(
        importlib.util.find_spec("langgraph_api") is None,
        reason='the Agent Server is not installed: pip install "ragweave[studio]"',
    ),
]
ROOT = Path(__file__).parents[2]
QUESTION = {"question": "What does BlendFilter blend?"}
NEEDS = {
    "flare": "probability of each token",
    "skr_knn": "training",
    "uncertainty_gate": "probability of each token",
}
"""Methods that the embedded default cannot serve, and what the reason must name."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studio") / "server.log"


@pytest.fixture(scope="module")
def client(log: Path, socket_enabled_for_module: None) -> Iterator[SyncLangGraphClient]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload"]
    command += [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--config",
        str(ROOT / "langgraph.json"),
    ]
    env = {**os.environ, "RAGWEAVE_MODEL": "extractive?similarity=lexical", "RAGWEAVE_K": "4"}
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=log.parent)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, server, log)
            sdk = get_sync_client(url=url)
            yield sdk
            sdk.http.client.close()
        finally:
            server.terminate()
            server.wait(timeout=30)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        try:
            if httpx.get(f"{url}/ok", timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            assert server.poll() is None, log.read_text()
        time.sleep(0.2)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


def ids(client: SyncLangGraphClient) -> dict[str, str]:
    return {one["graph_id"]: one["assistant_id"] for one in client.assistants.search(limit=100)}


def test_assistants_forms_and_pictures(client: SyncLangGraphClient) -> None:
    assistants = ids(client)
    assert set(assistants) == {"chat", *METHODS}
    for name, assistant in assistants.items():
        schemas = client.assistants.get_schemas(assistant)
        form = (schemas["context_schema"] or {})["properties"]
        assert form["k"]["default"] == 4, name
        assert "search" in form
        assert not OPERATOR & set(form)
        taken = (schemas["input_schema"] or {})["properties"]
        assert set(taken) == {"messages" if name == "chat" else "question"}
        assert all(one["description"] for one in taken.values())
        nodes = [str(node["id"]) for node in client.assistants.get_graph(assistant)["nodes"]]
        assert ("concat_pf" if name == "chat" else "begin") in nodes


def test_a_conversation_streams_its_answer_and_takes_follow_ups(
    client: SyncLangGraphClient,
) -> None:
    thread = client.threads.create()["thread_id"]
    asked = {"messages": [{"role": "user", "content": QUESTION["question"]}]}
    parts = list(
        client.runs.stream(thread, "chat", input=asked, stream_mode=["messages-tuple", "values"])
    )
    shown = [part.data[0] for part in parts if part.event == "messages"]
    final = [part.data for part in parts if part.event == "values"][-1]
    text = "".join(block["text"] for one in shown for block in one["content"])
    assert text == final["answer"]
    (block,) = final["messages"][-1]["content"]
    assert block["annotations"][0]["cited_text"].startswith("BlendFilter blends")
    more = {"messages": [{"role": "user", "content": "How many calls does it take?"}]}
    out: Any = client.runs.wait(thread, "chat", input=more)
    assert "BlendFilter" in out["question"]
    assert len(out["messages"]) == 4


def test_agents_talk_to_the_conversation(client: SyncLangGraphClient) -> None:
    """The A2A endpoint takes text parts, and refuses graphs without messages."""
    part = {"kind": "text", "text": QUESTION["question"]}
    message = {"role": "user", "parts": [part], "messageId": "1"}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
    url = f"{client.http.client.base_url}/a2a/{ids(client)['chat']}"
    said = httpx.post(url, json=body, timeout=60).json()
    assert "error" not in said, said
    assert "augmented query" in json.dumps(said["result"])


def test_tools_of_the_server_are_slim(client: SyncLangGraphClient) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"accept": "application/json, text/event-stream"}
    url = f"{client.http.client.base_url}/mcp"
    said = httpx.post(url, json=body, headers=headers, timeout=60, follow_redirects=True)
    tools = said.json()["result"]["tools"]
    assert len(tools) == len(METHODS) + 1
    for tool in tools:
        assert len(json.dumps(tool)) < 700, tool


@pytest.mark.parametrize("name", list(METHODS))
def test_each_method_runs_with_streaming(client: SyncLangGraphClient, name: str) -> None:
    thread = client.threads.create()
    parts = list(
        client.runs.stream(
            thread["thread_id"], name, input=QUESTION, stream_mode=["values", "updates"]
        )
    )
    if name in NEEDS:
        assert parts[-1].event == "error"
        assert NEEDS[name] in json.dumps(parts[-1].data)
        return
    updates = [next(iter(part.data)) for part in parts if part.event == "updates"]
    assert updates[0] == "begin"
    final = [part.data for part in parts if part.event == "values"][-1]
    assert final["status"] in ("answered", "unknown")
    assert final["usage"]["calls"] >= 1


def test_a_broken_configuration_shows_its_reason(client: SyncLangGraphClient) -> None:
    refused = "cannot be chosen by a run"
    for context, said in (
        ({"k": 0}, "k must be"),
        ({"model": "llamacpp:/etc/passwd"}, refused),
        ({"kb": "/etc"}, refused),
    ):
        thread = client.threads.create()
        stream = client.runs.stream(thread["thread_id"], "concat", input=QUESTION, context=context)
        last = list(stream)[-1]
        assert last.event == "error"
        assert said in json.dumps(last.data)


def test_a_remote_caller_opens_no_file_and_no_model(client: SyncLangGraphClient) -> None:
    for given in (
        {"input": {**QUESTION, "gold_answers": ["x"]}},
        {"input": {**QUESTION, "passages": ["x"]}},
        {"input": {**QUESTION, "kb": "/etc"}},
        {"input": QUESTION, "config": {"configurable": {"kb": "/etc"}}},
        {"input": QUESTION, "context": {"trained_filter": "/etc"}},
    ):
        thread = client.threads.create()
        stream = client.runs.stream(thread["thread_id"], "filco", **given)
        last = list(stream)[-1]
        assert last.event == "error", given
        assert "cannot be" in json.dumps(last.data), last.data
    assistant = client.assistants.create("concat", context={"judge": "/etc"})
    thread = client.threads.create()
    last = list(client.runs.stream(thread["thread_id"], assistant["assistant_id"], input=QUESTION))[
        -1
    ]
    assert last.event == "error"
    client.assistants.delete(assistant["assistant_id"])


def test_interrupt_edit_resume_and_fork(client: SyncLangGraphClient) -> None:
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "concat", input=QUESTION, interrupt_before=["concat"])
    state: Any = client.threads.get_state(thread)
    assert state["next"] == ["concat"]
    assert len(state["values"]["passages"]) == 4
    edited = [{"page_content": "BlendFilter blends apples and pears.", "metadata": {}}]
    client.threads.update_state(thread, {"passages": edited})
    result: Any = client.runs.wait(thread, "concat", input=None)
    assert "apples" in result["answer"]

    history: Any = client.threads.get_history(thread)
    before = next(one for one in history if one["next"] == ["collect"])
    client.runs.wait(
        thread, "concat", input=None, checkpoint_id=before["checkpoint"]["checkpoint_id"]
    )
    forked: Any = client.threads.get_state(thread)
    assert "apples" not in forked["values"]["answer"]


def test_nothing_blocks_the_event_loop(client: SyncLangGraphClient, log: Path) -> None:
    client.runs.wait(None, "concat_pf", input=QUESTION)
    assert not re.search(r"blocking call|BlockingError", log.read_text(), re.IGNORECASE)
