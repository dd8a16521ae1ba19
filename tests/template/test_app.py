"""The app that `ragweave new` makes, driven as a browser would drive it, without a socket."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.documents import Document
from tests.cli.conftest import run
from tests.servers import free_port, wait_for

from ragweave import build_chat
from ragweave.errors import KnowledgeBaseError
from ragweave.testing import RecordingRetriever, ScriptedModel

pytest.importorskip("fastapi", reason='the app needs: pip install "ragweave[serve]"')
httpx = pytest.importorskip("httpx", reason='the app needs: pip install "ragweave[serve]"')

TEMPLATE = Path(__file__).parents[2] / "src" / "ragweave" / "template"
THREAD = "a-thread-of-my-own"


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The template's `app`, which imports the modules beside it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TEMPLATE)
        spec = importlib.util.spec_from_file_location("app", TEMPLATE / "app.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["app"] = module
        spec.loader.exec_module(module)
        yield module
        for name in ("app", "history", "library"):
            del sys.modules[name]


BRIDGE = "It is old. The bridge of Varn is of marble."


def app_of(example: ModuleType, folder: Path, replies: Any, restater: Any = None, **options: Any) -> Any:
    meta = {"source": "/srv/secret/bridges.pdf", "page": 3}
    passages = [Document(text, id=f"p{at}", metadata=meta) for at, text in enumerate((BRIDGE, "Ostra has marble."))]
    retriever = RecordingRetriever(documents=passages)
    model = ScriptedModel(script=replies)
    chat = build_chat("concat", model=model, retriever=retriever, restater=restater, **options)
    return web_of(example, folder, chat)


def web_of(example: ModuleType, folder: Path, chat: Any) -> Any:
    library = example.Library(folder / "documents", folder / "kb", lambda _: chat)
    library.chat = chat
    library.ready.set()
    return example.create_app(library, example.History(folder / "history.sqlite", folder / "feedback.jsonl"))


@pytest.fixture
async def client(example: ModuleType, tmp_path: Path) -> AsyncIterator[Any]:
    async with open_client(app_of(example, tmp_path, lambda _: "The bridge of Varn")) as opened:
        yield opened


def open_client(app: Any, **more: Any) -> Any:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost", **more)


async def turn(client: Any, question: str, thread: str = THREAD) -> list[tuple[str, dict[str, Any]]]:
    reply = await client.post("/ask", json={"question": question, "thread": thread})
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/event-stream")
    return events_of(reply)


def events_of(reply: Any) -> list[tuple[str, dict[str, Any]]]:
    parts = [part.split("\ndata: ") for part in reply.text.strip().split("\n\n")]
    return [(head.removeprefix("event: "), json.loads(data)) for head, data in parts]


async def test_steps_then_the_answer_streamed_once_then_its_sources(client: Any) -> None:
    events = await turn(client, "Which bridge is old?")
    kinds = [kind for kind, _ in events]
    assert kinds == sorted(kinds, key=["step", "token", "answer"].index)
    assert kinds.count("answer") == 1
    assert [data["node"] for kind, data in events if kind == "step"][-3:] == ["concat", "vote", "reply"]
    assert "".join(data["text"] for kind, data in events if kind == "token") == "The bridge of Varn"


async def test_an_answer_has_its_quotes_with_file_and_page_and_no_path_of_the_server(client: Any) -> None:
    _, answer = (await turn(client, "Which bridge is old?"))[-1]
    assert (answer["status"], answer["question"]) == ("answered", "Which bridge is old?")
    (note,) = answer["notes"]
    assert answer["text"][note["start_index"] : note["end_index"]] == "The bridge of Varn"
    assert (note["title"], note["extras"]["page"]) == ("bridges.pdf, page 3", 3)
    passage = answer["passages"][0]["text"]
    assert passage[note["extras"]["start"] : note["extras"]["end"]] == "The bridge of Varn is of marble."
    assert answer["passages"][1] == {"id": "p1", "title": "bridges.pdf, page 3", "text": "Ostra has marble."}
    assert "/srv" not in json.dumps(answer)


async def test_conversations_outlive_the_app_and_are_their_threads_own(example: ModuleType, tmp_path: Path) -> None:
    other = "the-thread-of-another"
    async with open_client(app_of(example, tmp_path, lambda _: "The bridge of Varn")) as client:
        for question in ("First?", "Second?"):
            await turn(client, question)
        await turn(client, "Other?", other)
    async with open_client(app_of(example, tmp_path, lambda _: "x")) as client:
        turns = (await client.get(f"/turns/{THREAD}")).json()
        assert [past["asked"] for past in turns] == ["First?", "Second?"]
        assert turns[0]["notes"][0]["cited_text"] == "The bridge of Varn is of marble."
        assert len((await client.get(f"/turns/{other}")).json()) == 1
        assert (await client.get("/turns/no-such-thread-yet")).json() == []


async def test_a_question_without_a_thread_begins_one_that_nobody_can_guess(client: Any) -> None:
    threads = [events_of(await client.post("/ask", json={"question": "Which?"}))[-1][1]["thread"] for _ in range(2)]
    assert len({*threads}) == 2
    assert all(len(thread) == 32 for thread in threads)
    assert (await client.post("/ask", json={"question": "Which?", "thread": "main"})).status_code == 422


async def test_old_turns_are_deleted(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("history.MAX_TURNS", 2)
    for question in ("One?", "Two?", "Three?"):
        await turn(client, question)
    assert [past["asked"] for past in (await client.get(f"/turns/{THREAD}")).json()] == ["Two?", "Three?"]


async def test_a_follow_up_is_restated_for_the_method(example: ModuleType, tmp_path: Path) -> None:
    restater = ScriptedModel(script=["Where is the bridge of Varn?"])
    replies: Any = lambda call: f"Asked was: {call.last.rpartition('Question: ')[2]}"  # noqa: E731
    async with open_client(app_of(example, tmp_path, replies, restater)) as client:
        assert (await turn(client, "Which bridge?"))[-1][1]["text"] == "Asked was: Which bridge?"
        last = (await turn(client, "Where is it?"))[-1]
    assert last[1]["text"] == "Asked was: Where is the bridge of Varn?"
    assert last[1]["question"] == "Where is the bridge of Varn?"
    assert len(restater.calls) == 1


async def test_a_thumb_makes_a_question_of_the_answer(client: Any, tmp_path: Path) -> None:
    answers = [
        (await turn(client, question, THREAD * at))[-1][1]
        for at, question in ((1, "Which bridge?"), (2, "Which other?"))
    ]
    for answer, thumb in zip(answers, ("up", "down"), strict=True):
        for _ in range(2):
            assert (await client.post("/thumb", json={"turn": answer["turn"], "thumb": thumb})).status_code == 204
    lines = [json.loads(line) for line in (tmp_path / "feedback.jsonl").read_text("utf-8").splitlines()]
    assert [(line["question"], line["answer"], line["thumb"]) for line in lines] == [
        ("Which bridge?", "The bridge of Varn", "up"),
        ("Which other?", "The bridge of Varn", "down"),
    ]
    assert [passage["id"] for passage in lines[0]["passages"]] == ["p0", "p1"]
    assert [past["thumb"] for past in (await client.get(f"/turns/{THREAD}")).json()] == ["up"]
    assert (await client.post("/thumb", json={"turn": "x" * 32, "thumb": "up"})).status_code == 404


@pytest.mark.parametrize("given", [{"question": "  "}, {}, {"question": "q", "thread": "../../../../../../x"}])
async def test_bad_input_is_refused(client: Any, given: dict[str, str]) -> None:
    assert (await client.post("/ask", json=given)).status_code == 422


async def test_a_run_that_fails_says_why(example: ModuleType, tmp_path: Path) -> None:
    async with open_client(app_of(example, tmp_path, ["x"], timeout=1e-9)) as client:
        kind, data = (await turn(client, "Which?"))[-1]
    assert kind == "error"
    assert "timeout" in data["text"]


@pytest.mark.parametrize("error", [ConnectionError("secret.host refused"), KnowledgeBaseError("secret.host: damaged")])
async def test_a_failure_is_told_in_general_terms(
    example: ModuleType, tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(_call: Any) -> str:
        raise error

    async with open_client(app_of(example, tmp_path, gone)) as client:
        kind, data = (await turn(client, "Which?"))[-1]
    assert (kind, data["text"]) == ("error", "the answer failed: the server's log says why")
    assert "secret.host" in caplog.text


async def test_with_keys_each_caller_has_threads_and_answers_of_their_own(
    example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_KEYS", "one two")
    app = app_of(example, tmp_path, lambda _: "The bridge of Varn")
    heads = [{"authorization": f"Bearer {key}"} for key in ("one", "two", "three")]
    async with open_client(app) as client:
        assert (await client.get("/")).status_code == 200  # the page asks for the key
        for head in ({}, heads[2]):
            assert (await client.get(f"/turns/{THREAD}", headers=head)).status_code == 401
            assert (await client.post("/ask", json={"question": "Which?"}, headers=head)).status_code == 401
            assert (await client.put("/documents/a.md", content=b"x", headers=head)).status_code == 401
        asked = {"question": "Which?", "thread": THREAD}
        answer = events_of(await client.post("/ask", json=asked, headers=heads[0]))[-1][1]
        assert len((await client.get(f"/turns/{THREAD}", headers=heads[0])).json()) == 1
        assert (await client.get(f"/turns/{THREAD}", headers=heads[1])).json() == []
        thumb = {"turn": answer["turn"], "thumb": "down"}
        assert (await client.post("/thumb", json=thumb, headers=heads[1])).status_code == 404


async def test_without_keys_only_this_machine_is_answered(client: Any) -> None:
    assert (await client.get("/status", headers={"host": "evil.example"})).status_code == 421
    ask = await client.post("/ask", content='{"question": "q"}', headers={"content-type": "text/plain"})
    assert ask.status_code == 415


@pytest.fixture
def reading(example: ModuleType, tmp_path: Path) -> Any:
    """An app over a folder of its own, with the embedded model."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "rivers.md").write_text("# Rivers\n\nThe city of Varn lies by the Orrin.\n", "utf-8")
    library = example.Library(
        tmp_path / "documents",
        tmp_path / "kb",
        lambda retriever: build_chat("concat", model="extractive?similarity=lexical", retriever=retriever),
    )
    return example.create_app(
        library, example.History(tmp_path / "history.sqlite", tmp_path / "feedback.jsonl")
    ), library


async def test_the_first_questions_at_once_are_all_answered(reading: Any) -> None:
    app, library = reading
    async with open_client(app, timeout=120) as client:
        asks = [client.post("/ask", json={"question": "Which city lies by the Orrin?"}) for _ in range(6)]
        first = asyncio.gather(*asks)
        await asyncio.sleep(0.1)
        library.start()
        answers = [events_of(reply) for reply in await first]
    assert {kind for events in answers for kind, _ in events[:1]} == {"step"}
    assert answers[0][0][1]["progress"].startswith("Reading the documents")
    assert {events[-1][1]["text"] for events in answers} == {"The city of Varn lies by the Orrin"}


async def test_a_file_that_is_added_or_uploaded_is_read_while_the_app_runs(
    reading: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("library.SECONDS", 0.05)
    app, library = reading
    library.start()
    async with open_client(app, timeout=120) as client:
        await turn(client, "Which city lies by the Orrin?")
        (library.documents / "moons.md").write_text("The moon of Ostra is called Belin.\n", "utf-8")
        await until_answered(client, "What is the moon of Ostra called?", "Belin")
        body = b"The founder of Ostra was Karl Oster.\n"
        assert (await client.put("/documents/founders.txt", content=body)).status_code == 201
        await until_answered(client, "Who was the founder of Ostra?", "Karl Oster")
        (library.documents / "broken.pdf").write_bytes(b"not a pdf")
        while not (notices := (await client.get("/status")).json()["notices"]):
            await asyncio.sleep(0.05)
    assert notices[0].startswith("broken.pdf: ")


async def until_answered(client: Any, question: str, answer: str) -> None:
    while answer not in (await turn(client, question))[-1][1]["text"]:
        await asyncio.sleep(0.05)


NOT_STORED = [
    ("/documents/x.exe", b"MZ", "files of this type"),
    ("/documents/rivers.md", b"other", "there is a file rivers.md already"),
    ("/documents/.hidden.md", b"x", "cannot be the name"),
    ("/documents/a%0Ab.md", b"x", "cannot be the name"),
    ("/documents/..%5Cx.md%00.md", b"x", "cannot be the name"),
    ("/documents/large.md", b"x" * 20_000_001, "at most 20000000 bytes"),
    ("/documents/..%2Fapp.py", b"x", "Not Found"),
]


@pytest.mark.parametrize(("path", "body", "message"), NOT_STORED, ids=[path for path, _, _ in NOT_STORED])
async def test_what_may_not_be_uploaded_is_refused_by_name(
    reading: Any, path: str, body: bytes, message: str, tmp_path: Path
) -> None:
    app, library = reading
    async with open_client(app) as client:
        reply = await client.put(path, content=body)
    assert reply.status_code in (400, 404, 413)
    assert message in reply.text
    assert [file.name for file in library.documents.iterdir()] == ["rivers.md"]
    assert not (tmp_path / "app.py").exists()


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
    port = free_port()
    command = [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)]
    url, key, other = f"http://127.0.0.1:{port}", bearer("secret"), bearer("another")
    server = subprocess.Popen(command, cwd=new_app, env={**os.environ, "APP_KEYS": "secret another"})
    try:
        wait_for(port, server)
        assert "Ask your documents" in httpx.get(url).text  # the page asks for the key
        assert httpx.get(f"{url}/turns/{THREAD}").status_code == 401
        assert httpx.get(f"{url}/turns/{THREAD}", headers=key).json() == []
        given = {"messages": [{"role": "user", "content": "Which files does the app answer from?"}]}
        asked = {"assistant_id": "chat", "input": given}
        thread = httpx.post(f"{url}/threads", json={}, headers=key).json()["thread_id"]
        out = httpx.post(f"{url}/threads/{thread}/runs/wait", json=asked, headers=key, timeout=60).json()
        assert out.get("status") == "answered", out
        assert httpx.get(f"{url}/threads/{thread}/state", headers=key).status_code == 200
        for path in (f"/threads/{thread}", f"/threads/{thread}/state"):
            assert httpx.get(url + path, headers=other).status_code in (403, 404)
        assert httpx.post(f"{url}/threads/{thread}/runs/wait", json=asked, headers=other).status_code in (403, 404)
        assert httpx.post(f"{url}/threads/search", json={}, headers=other).json() == []
        item = {"namespace": ["notes"], "key": "a", "value": {"text": "mine"}}
        assert httpx.put(f"{url}/store/items", json=item, headers=key).status_code == 204
        search: dict[str, Any] = {"namespace_prefix": []}
        found = [httpx.post(f"{url}/store/items/search", json=search, headers=head).json() for head in (key, other)]
        assert [len(items["items"]) for items in found] == [1, 0]
    finally:
        server.terminate()
        server.wait(timeout=30)


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_langgraphs_server_wants_a_key_if_there_are_any(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await example.authenticated(None, "/threads") == "anyone"
    monkeypatch.setenv("APP_KEYS", "one two")
    users = {await example.authenticated(f"Bearer {key}", "/threads") for key in ("one", "two")}
    assert len(users) == 2
    assert await example.authenticated(None, "/") == "anyone"  # the page, which asks for the key
    for wrong in (None, "Bearer no", "two"):
        with pytest.raises(example.Auth.exceptions.HTTPException, match="needs a key"):
            await example.authenticated(wrong, "/threads")
