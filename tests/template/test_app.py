"""The app that `ragweave new` makes, driven as a browser would drive it, without a socket."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.cli.conftest import run

from ragweave.testing import RecordingRetriever, ScriptedModel

pytest.importorskip("fastapi", reason='the app needs: pip install "ragweave[serve]"')
httpx = pytest.importorskip("httpx", reason='the app needs: pip install "ragweave[serve]"')

FILE = Path(__file__).parents[2] / "src" / "ragweave" / "template" / "app.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("app", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["app"] = module
    spec.loader.exec_module(module)
    return module


BRIDGE = "It is old. The bridge of Varn is of marble."


def app_of(example: ModuleType, replies: Any, restater: Any = None, **options: Any) -> Any:
    from langgraph.checkpoint.memory import InMemorySaver

    from ragweave import build_chat

    passages = [Document(text, id=f"p{at}") for at, text in enumerate((BRIDGE, "Ostra has marble."))]
    retriever = RecordingRetriever(documents=passages)
    model = ScriptedModel(script=replies)
    given = {"restater": restater, "checkpointer": InMemorySaver(), **options}
    chat = build_chat("concat", model=model, retriever=retriever, **given)
    return example.create_app(lambda: chat)


@pytest.fixture
async def client(example: ModuleType) -> AsyncIterator[Any]:
    async with open_client(app_of(example, ["The bridge of Varn"])) as opened:
        yield opened


def open_client(app: Any) -> Any:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app")


async def turn(client: Any, question: str, thread: str = "t") -> list[tuple[str, dict[str, Any]]]:
    reply = await client.post("/ask", json={"question": question, "thread": thread})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    parts = [part.split("\ndata: ") for part in reply.text.strip().split("\n\n")]
    return [(head.removeprefix("event: "), json.loads(data)) for head, data in parts]


async def test_steps_then_the_answer_streamed_once_then_its_sources(client: Any) -> None:
    events = await turn(client, "Which bridge is old?")
    kinds = [kind for kind, _ in events]
    assert kinds == sorted(kinds, key=["step", "token", "answer"].index)
    assert kinds.count("answer") == 1
    assert [data["node"] for kind, data in events if kind == "step"][-3:] == [
        "concat",
        "vote",
        "reply",
    ]
    assert "".join(data["text"] for kind, data in events if kind == "token") == "The bridge of Varn"


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
    question, answer = (await client.get("/messages/t")).json()
    assert question["parts"] == [{"text": "Which bridge is old?"}]
    assert answer["parts"] == [{"text": "The bridge of Varn", "marks": [1]}]
    (card,) = answer["sources"]
    assert card["pieces"] == [{"text": "The bridge of Varn is of marble.", "mark": 1}]


async def test_what_nothing_supports_is_marked(example: ModuleType) -> None:
    reply = "The bridge of Varn is of marble. Elephants dance there."
    async with open_client(app_of(example, [reply], answer_type="long")) as client:
        _, answer = (await turn(client, "What is the bridge like?"))[-1]
    marks = {part["text"]: part["marks"] for part in answer["parts"] if "marks" in part}
    assert marks == {"The bridge of Varn is of marble.": [1], "Elephants dance there.": []}
    assert "".join(part["text"] for part in answer["parts"]) == reply


async def test_threads_are_remembered_separately(client: Any) -> None:
    await turn(client, "First?", "a")
    await turn(client, "Second?", "a")
    await turn(client, "Other?", "b")
    messages = (await client.get("/messages/a")).json()
    assert [message["text"] for message in messages if message["role"] == "human"] == ["First?", "Second?"]
    assert len((await client.get("/messages/b")).json()) == 2
    assert (await client.get("/messages/new")).json() == []


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
    assert (await client.post("/ask", json=given)).status_code == 422


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


@pytest.fixture(scope="module")
def new_app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An app that `ragweave new` made."""
    folder = tmp_path_factory.mktemp("new") / "my-app"
    assert run("new", str(folder)).returncode == 0
    return folder


def test_a_folder_that_is_there_stays_as_it_is(new_app: Path) -> None:
    done = run("new", str(new_app))
    assert (done.returncode, done.stderr.count("exists already")) == (2, 1)


def test_the_page_loads_nothing_from_elsewhere(new_app: Path) -> None:
    page = (new_app / "page.html").read_text("utf-8")
    assert not re.search(r"""(src|href)\s*=\s*["']|https?://|@import|url\(""", page)


def test_its_own_tests_pass(new_app: Path) -> None:
    env = {**os.environ, "RAGWEAVE_MODEL": "extractive?similarity=lexical"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=new_app, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_langgraph_can_load_it(new_app: Path) -> None:
    config = pytest.importorskip("langgraph_cli.config")
    loaded = config.validate_config_file(new_app / "langgraph.json")
    assert set(loaded) >= {"graphs", "http", "auth", "store"}
    source = (new_app / "app.py").read_text("utf-8")
    for path in (loaded["graphs"]["chat"]["path"], loaded["http"]["app"], loaded["auth"]["path"]):
        assert re.search(rf"^(async def )?{path.rpartition(':')[2]}\b", source, re.M)


@pytest.mark.nightly
@pytest.mark.loopback
def test_langgraphs_server_runs_it(new_app: Path) -> None:
    pytest.importorskip("langgraph_api")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    url, key = f"http://127.0.0.1:{port}", {"authorization": "Bearer secret"}
    server = subprocess.Popen(command, cwd=new_app, env={**os.environ, "APP_KEYS": "secret"})
    try:
        for _ in range(600):
            with suppress(httpx.TransportError):
                if httpx.get(f"{url}/ok").status_code == 200:
                    break
            time.sleep(0.2)
        assert httpx.get(url).status_code == 401
        assert "Ask your documents" in httpx.get(url, headers=key).text
        given = {"messages": [{"role": "user", "content": "Which files does the app answer from?"}]}
        asked = {"assistant_id": "chat", "input": given}
        out = httpx.post(f"{url}/runs/wait", json=asked, headers=key, timeout=60).json()
        assert out.get("status") == "answered", out
    finally:
        server.terminate()
        server.wait(timeout=30)


@pytest.mark.parametrize(("key", "allowed"), [(None, False), ("Bearer no", False), ("Bearer two", True)])
async def test_langgraphs_server_wants_a_key_if_there_are_any(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, key: str | None, allowed: bool
) -> None:
    assert await example.authenticated(key) == "user"
    monkeypatch.setenv("APP_KEYS", "one two")
    if allowed:
        assert await example.authenticated(key) == "user"
    else:
        with pytest.raises(example.Auth.exceptions.HTTPException, match="needs a key"):
            await example.authenticated(key)
