"""The example app, driven as a browser would drive it, without a socket."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.documents import Document

from ragweave.testing import RecordingRetriever, ScriptedModel

pytest.importorskip("fastapi", reason='the example needs: pip install "ragweave[examples]"')
httpx = pytest.importorskip("httpx", reason='the example needs: pip install "ragweave[examples]"')

FILE = Path(__file__).parents[2] / "examples" / "chat_app.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("chat_app", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["chat_app"] = module
    spec.loader.exec_module(module)
    return module


BRIDGE = "It is old. The bridge of Varn is of marble."


def app_of(example: ModuleType, replies: Any, restater: Any = None, **options: Any) -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    from ragweave import build_chat

    found = [Document(text, id=f"p{at}") for at, text in enumerate((BRIDGE, "Ostra has marble."))]
    retriever = RecordingRetriever(documents=found)
    model = ScriptedModel(script=replies)
    given = {"restater": restater, "checkpointer": InMemorySaver(), **options}
    return example.create_app(build_chat("concat", model=model, retriever=retriever, **given))


@pytest.fixture
async def client(example: ModuleType) -> AsyncIterator[Any]:
    async with open_client(app_of(example, ["The bridge of Varn"])) as opened:
        yield opened


def open_client(app: Any) -> Any:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")


async def turn(client: Any, question: str, thread: str = "t") -> list[tuple[str, dict[str, Any]]]:
    reply = await client.post("/chat", json={"question": question, "thread": thread})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    parts = [part.split("\ndata: ") for part in reply.text.strip().split("\n\n")]
    return [(head.removeprefix("event: "), json.loads(data)) for head, data in parts]


async def test_steps_then_the_answer_streamed_once_then_its_sources(client: Any) -> None:
    said = await turn(client, "Which bridge is old?")
    kinds = [kind for kind, _ in said]
    assert kinds == sorted(kinds, key=["step", "token", "answer"].index)
    assert kinds.count("answer") == 1
    assert [data["node"] for kind, data in said if kind == "step"][-3:] == [
        "concat",
        "vote",
        "reply",
    ]
    assert "".join(data["text"] for kind, data in said if kind == "token") == "The bridge of Varn"


async def test_an_answer_has_its_marks_and_its_sources_as_cards(client: Any) -> None:
    _, answer = (await turn(client, "Which bridge is old?"))[-1]
    assert (answer["status"], answer["question"]) == ("answered", "Which bridge is old?")
    assert answer["parts"] == [{"text": "The bridge of Varn", "marks": [1]}]
    cited, other = answer["sources"]
    assert cited["pieces"] == [
        {"text": "It is old. "},
        {"text": "The bridge of Varn is of marble.", "mark": 1},
    ]
    assert other == {"title": "p1", "place": "", "pieces": [{"text": "Ostra has marble."}]}


async def test_a_conversation_taken_up_again_shows_its_quotes(client: Any) -> None:
    await turn(client, "Which bridge is old?")
    asked, said = (await client.get("/threads/t")).json()
    assert asked["parts"] == [{"text": "Which bridge is old?"}]
    assert said["parts"] == [{"text": "The bridge of Varn", "marks": [1]}]
    (card,) = said["sources"]
    assert card["pieces"] == [{"text": "The bridge of Varn is of marble.", "mark": 1}]


async def test_what_nothing_supports_is_marked(example: ModuleType) -> None:
    reply = "The bridge of Varn is of marble. Elephants dance there."
    async with open_client(app_of(example, [reply], answer_type="long")) as client:
        _, answer = (await turn(client, "What is the bridge like?"))[-1]
    marks = {part["text"]: part["marks"] for part in answer["parts"] if "marks" in part}
    assert marks == {"The bridge of Varn is of marble.": [1], "Elephants dance there.": []}
    assert "".join(part["text"] for part in answer["parts"]) == reply


async def test_threads_are_remembered_apart(client: Any) -> None:
    await turn(client, "First?", "a")
    await turn(client, "Second?", "a")
    await turn(client, "Other?", "b")
    told = (await client.get("/threads/a")).json()
    assert [one["text"] for one in told if one["role"] == "human"] == ["First?", "Second?"]
    assert len((await client.get("/threads/b")).json()) == 2
    assert (await client.get("/threads/new")).json() == []


async def test_a_follow_up_is_restated_for_the_method(example: ModuleType) -> None:
    restater = ScriptedModel(script=["Where is the bridge of Varn?"])
    app = app_of(example, lambda call: f"Asked was: {call.last.rpartition('Question: ')[2]}", restater)
    async with open_client(app) as client:
        assert (await turn(client, "Which bridge?"))[-1][1]["text"] == "Asked was: Which bridge?"
        last = (await turn(client, "Where is it?"))[-1]
    assert last[1]["text"] == "Asked was: Where is the bridge of Varn?"
    assert last[1]["question"] == "Where is the bridge of Varn?"
    assert len(restater.calls) == 1


@pytest.mark.parametrize("given", [{"question": "  "}, {}, {"question": "q", "thread": "../x"}])
async def test_bad_input_is_refused(client: Any, given: dict[str, str]) -> None:
    assert (await client.post("/chat", json=given)).status_code == 422


async def test_a_run_that_fails_says_why(example: ModuleType) -> None:
    app = app_of(example, ["x"], timeout=1e-9)
    async with open_client(app) as client:
        kind, data = (await turn(client, "Which?"))[-1]
    assert kind == "error"
    assert "timeout" in data["text"]


async def test_a_model_server_that_is_not_there_is_said(example: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    def gone(_seen: Any) -> str:
        raise ConnectionError("secret.host refused the connection")

    async with open_client(app_of(example, gone)) as client:
        kind, data = (await turn(client, "Which?"))[-1]
    assert (kind, data["text"]) == ("error", "the answer failed: the server's log says why")
    assert "secret.host" in caplog.text


async def test_the_default_runs_on_the_bundled_articles(example: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_MODEL", "extractive?similarity=lexical")
    async with open_client(example.create_app()) as client:
        page = await client.get("/")
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert not re.search(r"""(src|href)\s*=\s*["']|https?://|@import|url\(""", page.text)
        assert 'TRY = ["What does BlendFilter blend?"' in page.text
        kind, data = (await turn(client, "What does BlendFilter blend?"))[-1]
    assert kind == "answer"
    assert data["sources"][0]["title"] == "BlendFilter"


def start(**env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(FILE)],
        env={**os.environ, "RAGWEAVE_MODEL": "extractive?similarity=lexical", **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_missing_knowledge_base_is_said_in_a_line(tmp_path: Path) -> None:
    done = start(RAGWEAVE_KB=str(tmp_path / "nowhere"))
    assert done.returncode == 1
    assert "nowhere" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.loopback
def test_a_port_in_use_is_said(socket_enabled_for_module: None) -> None:
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = start(PORT=str(taken.getsockname()[1]))
    assert done.returncode != 0
    assert "address already in use" in done.stderr
