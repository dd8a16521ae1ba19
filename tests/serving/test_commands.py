"""`ragweave serve` and `ragweave mcp` as processes, to the real clients."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from openai import OpenAI
from tests.command import COMMAND, LEXICAL, run
from tests.scripted import ListRetriever

from ragweave import METHODS, build_graph
from ragweave.cli.main import app
from ragweave.cli.options import check_retriever
from ragweave.cli.serve import listen, mcp, serve
from ragweave.errors import UsageError
from ragweave.graphs.build import drawable
from ragweave.tools.knowledge import KnowledgeBase, Settings

pytestmark = pytest.mark.loopback
QUESTION = "When was the Old Bridge opened?"
NO_CONTEXT: Any = None


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kb")
    (folder / "bridge.md").write_text("# The Old Bridge\n\nThe Old Bridge was opened in 1932.\n")
    with KnowledgeBase.create(folder / "kb", settings=Settings(embedding=None)) as base:
        base.index_paths([folder / "bridge.md"])
    return folder / "kb"


@contextmanager
def running(path: str, *args: str, **environment: str) -> Iterator[str]:
    """Start a command on a free port; give the server's address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*COMMAND, *args, "--port", str(port)]
    process = subprocess.Popen(command, env={**os.environ, **environment}, stderr=subprocess.PIPE)
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}{path}", timeout=2)
                break
            except httpx.TransportError:
                assert process.poll() is None, process.communicate()[1]
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_serve_answers_the_openai_client(kb: Path) -> None:
    args = ("serve", "concat", "post_fusion", "--kb", str(kb), *LEXICAL)
    with running("/health", *args, RAGWEAVE_API_KEYS="right") as url:
        client = OpenAI(base_url=f"{url}/v1", api_key="right", max_retries=0)
        assert [one.id for one in client.models.list()] == ["concat", "post_fusion"]
        asked: Any = [{"role": "user", "content": QUESTION}]
        stream = client.chat.completions.create(model="concat", messages=asked, stream=True)
        chunks = [chunk.choices[0].delta for chunk in stream]
        assert "".join(one.content or "" for one in chunks) == "1932"
        annotations = (chunks[-1].model_extra or {})["annotations"]
        assert annotations[0]["url_citation"]["cited_text"] == "The Old Bridge was opened in 1932."
        client.close()


async def test_mcp_answers_over_http_and_stdio(kb: Path) -> None:
    args = ("mcp", "--kb", str(kb), *LEXICAL)
    with running("/mcp", *args, "--http", "--api-key", "right") as url:
        web = httpx2.AsyncClient(headers={"authorization": "Bearer right"})
        async with web, Client(streamable_http_client(f"{url}/mcp", http_client=web)) as client:
            result: Any = await client.call_tool("ask", {"question": QUESTION})
            assert result.content[0].text.startswith("1932 [1]")
    command, *rest = [*COMMAND, *args]
    launched = StdioServerParameters(command=command, args=rest, env=dict(os.environ))
    async with Client(launched) as client:
        found: Any = await client.call_tool("search", {"query": "bridge"})
        assert "The Old Bridge was opened in 1932." in found.content[0].text


@pytest.mark.parametrize("http", [True, False])
def test_other_machines_need_a_key(kb: Path, http: bool) -> None:
    with pytest.raises(UsageError, match="--api-key, or --no-key"):
        if http:
            mcp(NO_CONTEXT, kb=kb, model=LEXICAL[1], http=True, host="0.0.0.0")
        else:
            serve(["concat"], kb=kb, model=LEXICAL[1], host="0.0.0.0")


@pytest.mark.parametrize("command", [("serve", "concat"), ("mcp", "--http")])
def test_an_empty_key_is_refused(kb: Path, command: tuple[str, ...]) -> None:
    done = run(*command, "--kb", str(kb), *LEXICAL, "--host", "0.0.0.0", "--api-key", "")
    assert done.returncode == 2
    assert "an API key is empty" in done.stderr


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"port": 99_999}, "--port must be from 0 to 65535, not 99999"),
        ({"port": -1}, "--port must be from 0 to 65535, not -1"),
        ({"request_bytes": -5}, "--request-bytes must be at least 1, not -5"),
        ({"concurrency": 0}, "--concurrency must be at least 1, not 0"),
    ],
)
def test_numbers_out_of_range_are_said(kb: Path, given: dict[str, int], said: str) -> None:
    started: dict[str, Any] = {"kb": str(kb), "model": LEXICAL[1], **given}
    with pytest.raises(UsageError, match=said):
        serve(["concat"], **started)
    with pytest.raises(UsageError, match=said):
        mcp(NO_CONTEXT, http=True, **started)


WITHOUT_KB: list[tuple[tuple[str, ...], str]] = [
    (("serve", "concat", "direct"), "concat has nothing to retrieve from"),
    (("serve", "direct", "-o", "retrieve=true"), "direct has nothing to retrieve from"),
    (("mcp", "--http"), "concat_pf has nothing to retrieve from"),
    (("mcp", "-m", "self_eval"), "self_eval has nothing to retrieve from"),
    (("chat", "-m", "crag"), "crag has nothing to retrieve from"),
]


@pytest.mark.parametrize(("command", "said"), WITHOUT_KB)
def test_a_method_that_retrieves_needs_a_knowledge_base(
    command: tuple[str, ...], said: str
) -> None:
    done = run(*command, *LEXICAL)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["direct", "cot"])
def test_a_method_that_never_retrieves_needs_none(name: str) -> None:
    graph = build_graph(name, model=LEXICAL[1])
    check_retriever(graph, None)
    assert graph.invoke({"question": QUESTION})["status"] == "unknown"


@pytest.mark.parametrize("name", sorted({*METHODS} - {"direct", "cot"}))
def test_every_other_method_needs_one(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} has nothing to retrieve from"):
        check_retriever(drawable(name), None)
    check_retriever(drawable(name), ListRetriever())


def test_a_port_in_use_is_said_before_anything_is_served(kb: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for command in (("serve", "concat"), ("mcp", "--http")):
            done = run(*command, "--kb", str(kb), *LEXICAL, "--port", port)
            assert done.returncode == 2
            expected = f"ragweave: cannot listen on 127.0.0.1, port {port}: Address already in use"
            assert done.stderr.strip() == expected


def test_a_host_that_is_none_is_said() -> None:
    for host in ("256.0.0.1", "x" * 70):
        with pytest.raises(UsageError, match=f"cannot listen on {host}"):
            listen(host, 0)


def test_all_addresses_of_a_host_have_one_port() -> None:
    opened = listen("localhost", 0)
    try:
        assert len({one.getsockname()[1] for one in opened}) == 1
        with pytest.raises(UsageError, match="in use"):
            listen("localhost", opened[0].getsockname()[1])
    finally:
        for one in opened:
            one.close()


def test_a_free_port_is_named(kb: Path) -> None:
    command = [*COMMAND, "serve", "concat", "--kb", str(kb), *LEXICAL, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline().strip()
        address = line.removeprefix("serving concat at ").removesuffix("/v1")
        assert not address.endswith(":0")
        assert httpx.get(f"{address}/health", timeout=30).json() == {"status": "ok"}
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_method_that_is_not_there_is_said(kb: Path) -> None:
    with pytest.raises(UsageError, match="concatt"):
        serve(["concatt"], kb=kb, model=LEXICAL[1])


HTTP_ALONE = [
    ("--port", "9000"),
    ("--host", "0.0.0.0"),
    ("--api-key", "k"),
    ("--no-key",),
    ("--request-bytes", "10"),
    ("--concurrency", "2"),
]


@pytest.mark.parametrize("given", HTTP_ALONE)
def test_stdio_refuses_what_it_has_no_use_for(given: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match=f"{given[0]} goes with --http"):
        app(["mcp", *given], standalone_mode=False)


def test_keys_of_the_environment_do_not_hinder_stdio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAGWEAVE_API_KEYS", "right")
    with pytest.raises(UsageError, match="nothing to retrieve from"):
        app(["mcp", *LEXICAL], standalone_mode=False)


def test_each_method_takes_the_options_that_it_has(
    kb: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []
    monkeypatch.setattr("ragweave.cli.serve._run", lambda *given: served.append(given))
    given: dict[str, Any] = {"kb": str(kb), "model": LEXICAL[1]}
    serve(["concat", "filco"], option=["top=2"], **given)
    assert len(served) == 1
    for methods, option in ((["concat", "filco"], "tops=2"), (["concat"], "top=2")):
        with pytest.raises(UsageError, match=r"tops?"):
            serve(methods, option=[option], **given)


def test_keys_are_parted_by_spaces_and_commas(kb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    monkeypatch.setattr("ragweave.cli.serve._run", lambda *_: None)
    monkeypatch.setattr(
        "ragweave.serving.openai_api.create_app", lambda _, limits: made.append(limits)
    )
    for text in ("one two", "one,two", "one, two", "one , two,"):
        monkeypatch.setenv("RAGWEAVE_API_KEYS", text)
        app(["serve", "concat", "--kb", str(kb), *LEXICAL], standalone_mode=False)
        assert list(made.pop().api_keys) == ["one", "two"]
    monkeypatch.setenv("RAGWEAVE_API_KEYS", ",")
    with pytest.raises(UsageError, match="an API key is empty"):
        app(["serve", "concat", "--kb", str(kb), *LEXICAL], standalone_mode=False)
