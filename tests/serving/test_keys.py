"""A key sees what its filter lets through, on every path of every server; a file that would let through more is refused."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from langchain_core.messages import AIMessage
from langgraph.store.memory import InMemoryStore
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import ASGIApp
from tests.servers import ragweave_served

from ragweave import KnowledgeBase, build_chat, build_graph
from ragweave.errors import UsageError
from ragweave.serving.guard import AccessLimits
from ragweave.serving.keys import Account, Caller, DayLimits, KeyedApp, Ledger, read_keys
from ragweave.serving.mcp_server import create_server, http_app
from ragweave.serving.openai_api import create_app
from ragweave.testing import ModelCall, ScriptedModel
from ragweave.tools.retrieval.reranking import ListwiseReranker

KEYS = """
keys:
  - {name: hr, key: "${HR_KEY}", filter: {dept: [hr, all]}, limits: {calls: 4}}
  - {name: it, key: it-key, filter: {dept: it, year: {$gte: 2020}}}
  - {name: admin, key: admin-key, filter: all}
audit: audit.jsonl
"""
SEES = {"hr-key": {"Ada"}, "it-key": {"Karl"}, "admin-key": {"Ada", "Karl", "Mira", "Tom"}}
QUESTION = "Is the boss Ada, Karl, Mira or Tom?"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HR_KEY", "hr-key")
    (tmp_path / "keys.yaml").write_text(KEYS)
    return tmp_path / "keys.yaml"


@pytest.fixture
def kb(tmp_path: Path) -> Iterator[KnowledgeBase]:
    for dept, year, word in (("hr", 2024, "Ada"), ("it", 2024, "Karl"), ("it", 2010, "Mira"), ("", 2024, "Tom")):
        front = f"---\n{f'dept: {dept}' if dept else 'x: y'}\nyear: {year}\n---\n"
        (tmp_path / f"{word}.md").write_text(f"{front}# Boss {word}\n\nThe boss is {word}.\n")
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as kb:
        kb.index_paths([*tmp_path.glob("*.md")])
        yield kb


@pytest.fixture
def chats(kb: KnowledgeBase) -> Callable[[Caller, Account], ASGIApp]:
    threads = InMemoryStore()

    def make(caller: Caller, account: Account) -> ASGIApp:
        retriever = kb.view(caller.condition()).as_retriever()
        chat = build_chat("concat", model="extractive", retriever=retriever, citations=True)
        served, limits = {"concat": account.recorded("concat", chat)}, AccessLimits(api_keys=[caller.key])
        return create_app(served, limits, None, retriever.evidence, threads, str(caller.filter))

    return make


def names(text: str) -> set[str]:
    return {name for name in ("Ada", "Karl", "Mira", "Tom") if name in text}


def ask(client: TestClient, key: str, question: str = "Who is the boss?") -> httpx.Response:
    body = {"model": "concat", "messages": [{"role": "user", "content": question}]}
    return client.post("/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"})


def test_completions(file: Path, chats: Any) -> None:
    with TestClient(KeyedApp(file, chats, AccessLimits())) as client:
        for key, sees in SEES.items():
            for question in ("Who is the boss?", QUESTION):
                reply = ask(client, key, question)
                assert reply.status_code == 200, reply.text
                assert names(reply.text)
                assert names(reply.text) <= sees
        for key, status in (("admin-key", 200), ("it-key", 404)):
            assert client.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code == status
        for wrong in ({}, *({"Authorization": text} for text in ("Bearer x", "Bearer ", "hr-key", "Basic hr-key"))):
            assert client.post("/v1/chat/completions", json={}, headers=wrong).status_code == 401
            for path in ("/metrics", "/v1/models", "/v1/models/concat"):
                assert client.get(path, headers=wrong).status_code == 401
        assert client.get("/health").status_code == 200


def test_responses(file: Path, chats: Any) -> None:
    def respond(key: str, question: str, **more: Any) -> httpx.Response:
        body = {"model": "concat", "input": question, **more}
        return client.post("/v1/responses", json=body, headers={"Authorization": f"Bearer {key}"})

    with TestClient(KeyedApp(file, chats, AccessLimits())) as client:
        kept: dict[str, str] = {}
        for key, sees in SEES.items():
            for more in ({}, {"stream": True}):
                reply = respond(key, QUESTION, **more)
                assert reply.status_code == 200, reply.text
                assert names(reply.text)
                assert names(reply.text) <= sees
            kept[key] = re.findall(r"resp_\w+", reply.text)[0]
        for key in ("it-key", "admin-key"):
            codes = [respond(key, "Who?", previous_response_id=name).status_code for name in kept.values()]
            assert codes == [200 if owner == key else 400 for owner in kept]
        assert [respond("hr-key", QUESTION).status_code for _ in range(3)] == [200, 200, 429]
        file.write_text(KEYS.replace("filter: all", "filter: {dept: hr}"))
        os.utime(file, (1, os.stat(file).st_mtime + 1))  # noqa: PTH116
        assert respond("admin-key", "Who?", previous_response_id=kept["admin-key"]).status_code == 400
        assert client.post("/v1/responses", json={}).status_code == 401
    lines = [json.loads(line) for line in file.with_name("audit.jsonl").read_text().splitlines()]
    assert (lines[0]["key"], lines[0]["method"], len(lines[0]["passages"])) == ("hr", "concat", 1)
    assert lines[-1]["status"] == "limit of calls"


def test_a_page_of_a_named_origin_may_call_and_is_told_what_is_refused(file: Path, chats: Any) -> None:
    origin = {"Origin": "https://chat.example"}
    with TestClient(KeyedApp(file, chats, AccessLimits(origins=[origin["Origin"]]))) as client:
        asks_first = {**origin, "Access-Control-Request-Method": "POST"}
        replies = [client.options("/v1/chat/completions", headers=asks_first), client.get("/v1/models", headers=origin)]
    assert [reply.status_code for reply in replies] == [200, 401]
    assert {reply.headers["access-control-allow-origin"] for reply in replies} == {origin["Origin"]}


def test_quotes_in_their_files(file: Path, chats: Any, kb: KnowledgeBase) -> None:
    file.write_text(KEYS.replace("calls: 4", "calls: 5"))
    with TestClient(KeyedApp(file, chats, AccessLimits())) as client:
        for key, sees in SEES.items():
            head = {"Authorization": f"Bearer {key}"}
            for doc in kb.passages():
                path = f"/v1/sources/{doc.id}?start=0&end={len(doc.page_content)}"
                reply = client.get(path, headers=head)
                assert reply.status_code == (200 if names(doc.page_content) <= sees else 404)
                assert client.get(path).status_code == 401
            annotations = ask(client, key).json()["choices"][0]["message"]["annotations"]
            assert annotations[0]["url_citation"]["places"][0]["lines"] in ([5, 5], [7, 7])
        assert client.get(path, headers={"Authorization": "Bearer hr-key"}).status_code == 429
    lines = [json.loads(line) for line in file.with_name("audit.jsonl").read_text().splitlines()]
    assert [(line["key"], line["method"], line["status"]) for line in lines[:4]] == [
        ("hr", f"/v1/sources/{doc.id}", "asked for") for doc in kb.passages()
    ]


def test_mcp(file: Path, kb: KnowledgeBase) -> None:
    file.write_text(KEYS.replace(", limits: {calls: 4}", ""))

    def make(caller: Caller, account: Account) -> ASGIApp:
        retriever = kb.view(caller.condition()).as_retriever()
        graph = account.recorded(
            "concat", build_graph("concat", model="extractive", retriever=retriever, citations=True)
        )
        server = create_server(graph, account.recorded_search(retriever))
        return http_app(server, AccessLimits(api_keys=[caller.key]))

    def call(key: str, method: str, **params: Any) -> str:
        head = {"Authorization": f"Bearer {key}", "Accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        reply = client.post("/mcp", json=body, headers=head)
        assert reply.status_code == 200, reply.text
        return reply.text

    with TestClient(KeyedApp(file, make, AccessLimits()), base_url="http://behind.a.proxy") as client:
        uris = re.findall(r"ragweave://sources/\w+", call("admin-key", "resources/list"))
        assert len(uris) == 4
        for key, sees in SEES.items():
            found = call(key, "tools/call", name="search", arguments={"query": "boss Ada Karl Mira Tom", "k": 20})
            answer = call(key, "tools/call", name="ask", arguments={"question": "Who is the boss?"})
            fetched = [call(key, "tools/call", name="fetch", arguments={"id": doc.id}) for doc in kb.passages()]
            read = [call(key, "resources/read", uri=uri) for uri in uris]
            for texts in ([found], fetched, read, [call(key, "resources/list")]):
                assert names(" ".join(texts)) == sees
            assert names(answer) <= sees
        assert client.post("/mcp", json={}).status_code == 401
    lines = [json.loads(line) for line in file.with_name("audit.jsonl").read_text().splitlines()]
    own = [(line["method"], len(line["passages"])) for line in lines if line["key"] == "hr" and line["passages"]]
    assert own == [("search", 1), ("concat", 1), ("fetch", 1), ("source", 1)]


def test_a_limit_holds_for_the_day_and_all_processes(file: Path, chats: Any, kb: KnowledgeBase) -> None:
    for _ in range(2):
        with TestClient(KeyedApp(file, chats, AccessLimits())) as client:
            assert [ask(client, "hr-key").status_code for _ in range(2)] == [200, 200]
    with TestClient(KeyedApp(file, chats, AccessLimits())) as client:
        refused = ask(client, "hr-key")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
        assert 0 < int(refused.headers["retry-after"]) <= 86_400
        assert ask(client, "it-key").status_code == 200
    lines = [json.loads(line) for line in file.with_name("audit.jsonl").read_text().splitlines()]
    assert [(line["key"], line["status"]) for line in lines[-2:]] == [("hr", "limit of calls"), ("it", "answered")]
    (own,) = kb.view({"dept": "it", "year": 2024}).passages()
    assert lines[-1]["passages"] == [own.id]
    assert not names(file.with_name("audit.jsonl").read_text())


class PricedModel(ScriptedModel):
    model_name: str = "fake"


@pytest.fixture
def prices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prices.json").write_text('{"fake": [1000, 1000]}')
    monkeypatch.setenv("RAGWEAVE_PRICES", str(tmp_path / "prices.json"))


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize("limit", ["tokens: 1", "dollars: 0.001"])
def test_what_a_run_spent_counts_even_if_it_failed(file: Path, kb: KnowledgeBase, limit: str, status: int) -> None:
    file.write_text(f"keys: [{{name: a, key: a-key, filter: {{dept: hr}}, limits: {{{limit}}}}}]")

    def reply(_call: ModelCall) -> str:
        if status == 500:
            raise UsageError("the model is gone")
        return "Ada"

    def make(caller: Caller, account: Account) -> ASGIApp:
        retriever = kb.view(caller.condition()).as_retriever()
        model, restater = PricedModel(script=reply), PricedModel(script=["Who is the boss?"])
        chat = build_chat("concat", model=model, retriever=retriever, restater=restater)
        return create_app({"concat": account.recorded("concat", chat)}, AccessLimits(api_keys=[caller.key]))

    texts = (("user", "Who is Ada?"), ("assistant", "The boss."), ("user", "Of what?"))
    body = {"model": "concat", "messages": [{"role": role, "content": text} for role, text in texts]}
    with TestClient(KeyedApp(file, make, AccessLimits())) as client:
        head = {"Authorization": "Bearer a-key"}
        replies = [client.post("/v1/chat/completions", json=body, headers=head) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [status, 429], replies[0].text


@pytest.mark.usefixtures("prices")
@pytest.mark.parametrize("tokens", [200, 0])
@pytest.mark.parametrize("limit", ["tokens: 2", "dollars: 0.002"])
def test_limits_hold_for_the_plain_model_too_even_if_its_server_does_not_count(
    file: Path, limit: str, tokens: int
) -> None:
    file.write_text(f"keys: [{{name: a, key: a-key, filter: {{dept: hr}}, limits: {{{limit}}}}}]")
    usage: Any = {"input_tokens": tokens, "output_tokens": tokens, "total_tokens": 2 * tokens} if tokens else None

    class Model:
        model_name = "fake"

        async def ainvoke(self, _values: Any, *_: Any, **__: Any) -> AIMessage:
            return AIMessage("x", usage_metadata=usage)

    def make(caller: Caller, account: Account) -> ASGIApp:
        return create_app({}, AccessLimits(api_keys=[caller.key]), account.recorded("plain", Model()))

    body = {"model": "plain", "messages": [{"role": "user", "content": "Name this chat"}]}
    with TestClient(KeyedApp(file, make, AccessLimits())) as client:
        head = {"Authorization": "Bearer a-key"}
        replies = [client.post("/v1/chat/completions", json=body, headers=head) for _ in range(2)]
    assert [reply.status_code for reply in replies] == [200, 429], replies[0].text
    assert replies[0].json()["usage"]["total_tokens"] > 1


def test_what_reranks_a_search_counts(tmp_path: Path, kb: KnowledgeBase) -> None:
    caller = Caller(name="a", key="k", filter="all", limits=DayLimits(tokens=1))
    account = Account(caller, Ledger(tmp_path / "usage"), None)
    reranker = ListwiseReranker(model=ScriptedModel(script=["[2] > [1]"]))
    search = account.recorded_search(kb.as_retriever(rerank=reranker))
    assert search is not None
    assert (account.take(), len(search.find("boss")), account.take()) == ("", 4, "tokens")


def test_the_file_is_read_again_when_it_changes(file: Path, chats: Any) -> None:
    def change(text: str) -> None:
        file.write_text(text)
        os.utime(file, (1, os.stat(file).st_mtime + 1))  # noqa: PTH116

    with TestClient(KeyedApp(file, chats, AccessLimits())) as client:
        assert ask(client, "it-key").status_code == 200
        change(KEYS.replace("it-key", "new-key"))
        assert [ask(client, key).status_code for key in ("it-key", "new-key")] == [401, 200]
        change("keys: [{name: it, key: third-key}]")
        assert [ask(client, key).status_code for key in ("third-key", "new-key")] == [401, 200]
        change(KEYS.replace("it-key", "third-key").replace("audit.jsonl", "kb"))
        assert [ask(client, key).status_code for key in ("third-key", "new-key")] == [401, 200]
        change("keys: [{name: it, key: new-key, filter: {dept: hr}}]")
        assert names(ask(client, "new-key", QUESTION).text) <= {"Ada"}
        change("keys: [{name: it, key: new-key, filter: {dept: hr}}]\naudit: audit.jsonl")
        ask(client, "new-key")
    assert '"key": "it"' in (file.parent / "audit.jsonl").read_text()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("keys: [{name: a, key: k}]", "filter"),
        ("keys: [{name: a, key: k, filter: null}]", "filter"),
        ("keys: [{name: a, key: k, filter: {}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: ALL}]", "filter"),
        ("keys: [{name: a, key: k, filter: {secret: {$ne: true}}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: {$not: {dept: hr}}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: {dept: {$nin: [hr]}}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: {dept: {$exists: false}}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: {source: {$exists: true}}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: {$or: [{dept: hr}, {dept: {$ne: hr}}]}}]", "without metadata"),
        ("keys: [{name: a, key: k, filter: {dept: {$is: hr}}}]", "no operator"),
        ("keys: [{name: a, key: '${UNSET_VARIABLE}', filter: all}]", "UNSET_VARIABLE is not set"),
        ("keys: [{name: a, key: ' ', filter: all}]", "empty"),
        ("keys: [{name: a, key: k, filters: {dept: hr}}]", "filter"),
        ("keys: [{name: a, key: k, filter: all}, {name: b, key: k, filter: {dept: hr}}]", "a key is given twice"),
        ("keys: [{name: a, key: k, filter: all}, {name: a, key: j, filter: {dept: hr}}]", "a name is given twice"),
        ("keys: [{name: a, key: k, filter: all, limits: {calls: 0}}]", "greater than 0"),
        ("keys: [{name: a, key: k, filter: all, limits: {dollar: 3}}]", "dollar"),
        ("keys: []", "at least 1"),
        ("- {name: a, key: secret-key, filter: all}", "keys.yaml: the file: Input should be a valid dictionary"),
        ("keys: {a: 1", "line 1 is not YAML"),
        ("keys:\n- {name: a, key: secret-key, filter: {dept: hr},\n  filter: all}", "line 3 repeats a name"),
    ],
)
def test_a_file_that_would_let_through_more_is_refused(tmp_path: Path, wrong: str, message: str) -> None:
    (tmp_path / "keys.yaml").write_text(wrong)
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        read_keys(tmp_path / "keys.yaml")
    assert "secret-key" not in str(error.value)


def test_a_call_in_flight_ends_before_its_app_is_replaced(file: Path) -> None:
    called, go, events = Event(), Event(), list[str]()

    def make(caller: Caller, _account: Account) -> ASGIApp:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                for kind in ("startup", "shutdown"):
                    await receive()
                    events.append(f"{kind} {caller.name}")
                    await send({"type": f"lifespan.{kind}.complete"})
                return
            if caller.name == "it":
                called.set()
                await asyncio.to_thread(go.wait)
            await PlainTextResponse(caller.name)(scope, receive, send)
            events.append(f"answer {caller.name}")

        return app

    def ask(key: str) -> str:
        return client.get("/v1/models", headers={"Authorization": f"Bearer {key}"}).text

    with TestClient(KeyedApp(file, make, AccessLimits())) as client, ThreadPoolExecutor() as pool:
        in_flight = pool.submit(ask, "it-key")
        called.wait()
        file.write_text(KEYS.replace("year: {$gte: 2020}", "year: 2024"))
        assert ask("admin-key") == "admin"
        go.set()
        assert in_flight.result() == "it"
    assert events[3:7] == ["startup it", "answer admin", "answer it", "shutdown it"]


def test_an_audit_that_cannot_be_written_is_refused_at_the_start(file: Path, chats: Any) -> None:
    file.write_text(KEYS.replace("audit.jsonl", "no/such/folder.jsonl"))
    with pytest.raises(UsageError, match="no audit can be written here"):
        KeyedApp(file, chats, AccessLimits())


@pytest.mark.parametrize("name", ["exhaustive", "table_query"])
async def test_the_audit_names_all_that_was_read_and_nothing_else(tmp_path: Path, kb: KnowledgeBase, name: str) -> None:
    def reply(call: ModelCall) -> str:
        task = '{"operation": "count", "condition": "Is it P3?"}'
        replies = {"plan_reading": task, "write": "SELECT name FROM staff", "word": "P0, P3"}
        return replies.get(call.node) or ("Yes" if "P3" in call.text.partition("</passage>")[0][-40:] else "No")

    (tmp_path / "staff.csv").write_text("name\n" + "".join(f"P{number}\n" for number in range(8)))
    kb.index_paths([tmp_path / "staff.csv"])
    rows = kb.view({"line": {"$exists": True}})
    account = Account(Caller(name="a", key="k", filter="all"), Ledger(tmp_path / "usage"), tmp_path / "audit")
    graph = build_graph(name, model=ScriptedModel(script=reply), retriever=rows.as_retriever())
    out = await account.recorded(name, graph).ainvoke({"question": "How many are P3?"})
    assert out["status"] == "answered"
    assert {*json.loads((tmp_path / "audit").read_text())["passages"]} == {doc.id for doc in rows.passages()}


@pytest.mark.loopback
def test_keys_on_the_command_line(file: Path, kb: KnowledgeBase) -> None:
    given = ("concat", "crag", "--kb", str(kb.path), "--second-retriever", "bm25", "--keys", str(file))
    with ragweave_served(*given) as (url, lines):
        assert "key hr sees 1 of 4 passages\n" in lines
        for key, sees in SEES.items():
            for model in ("concat", "crag"):
                body = {"model": model, "messages": [{"role": "user", "content": QUESTION}]}
                head = {"Authorization": f"Bearer {key}"}
                reply = httpx.post(f"{url}/v1/chat/completions", json=body, headers=head, timeout=60)
                assert reply.status_code == 200, reply.text
                assert names(reply.text) <= sees
        assert httpx.get(f"{url}/v1/models").status_code == 401
