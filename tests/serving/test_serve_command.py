"""`ragweave serve` as a process: to OpenAI's client, and as an agent's MCP server."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from langchain_core.documents import Document
from mcp import Client, StdioServerParameters
from openai import OpenAI
from tests import postgres_server
from tests.cli.conftest import run
from tests.openai_server import OpenAIServer

from ragweave.tools.knowledge import ServedKnowledgeBase

SERVE = [sys.executable, "-m", "ragweave", "serve"]


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    (folder / "contract.md").write_text("# Contract\n\nThe contract was signed by Ada Brenner in 1932.\n", "utf-8")
    done = run("index", str(folder / "contract.md"), "--kb", str(folder / "kb"), "--embedding", "none")
    assert done.returncode == 0, done.stderr
    return folder / "kb"


@pytest.fixture
def model() -> Iterator[str]:
    with OpenAIServer(["Ada Brenner"]) as server:
        yield f"openai:x?base_url={server.base_url}"


@pytest.mark.loopback
def test_methods_are_served_as_models(kb: Path, model: str, tmp_path: Path) -> None:
    command = [*SERVE, "concat", "direct", "--kb", str(kb), "--model", model, "--port", "0", "--api-key", "k"]
    command += ["--threads", str(tmp_path / "threads.sqlite")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            line = server.stderr.readline()
            match = re.search(r"serving concat, direct at (\S+)", line)
            assert match, line + server.stderr.read()
            _wait_for(match[1].removesuffix("/v1"), server)
            client = OpenAI(base_url=match[1], api_key="k", max_retries=0)
            assert [model.id for model in client.models.list()] == ["concat", "direct", "plain"]
            done = client.chat.completions.create(
                model="concat", messages=[{"role": "user", "content": "Who signed the contract?"}]
            )
            message = done.choices[0].message
            assert message.annotations
            assert message.content == "Ada Brenner"
            assert message.annotations[0].url_citation.title == "Contract — contract.md"
            first = client.responses.create(model="concat", input="Who signed the contract?")
            asks: dict[str, Any] = {"model": "direct", "input": "And when?", "previous_response_id": first.id}
            assert [first.output_text, client.responses.create(**asks).output_text] == ["Ada Brenner"] * 2
        finally:
            server.terminate()
    assert server.returncode in (0, -15)


@pytest.mark.nightly
@pytest.mark.loopback
def test_several_processes_serve_one_folder_and_count_together(kb: Path, model: str) -> None:
    with two_processes(str(kb), model) as url:
        body = {"model": "concat", "messages": [{"role": "user", "content": "Who signed the contract?"}]}
        for _ in range(6):  # each by a connection of its own, which any process may take
            assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).status_code == 200
        assert 'status="200"} 6.0' in httpx.get(f"{url}/metrics").text
        wrong = httpx.get(f"{url}/v1/models", headers={"host": "evil.example"})
        assert wrong.status_code == 421


@contextmanager
def two_processes(kb: str, model: str) -> Iterator[str]:
    """Serve a knowledge base by two processes; yield their URL."""
    command = [*SERVE, "concat", "--kb", kb, "--model", model, "--port", "0", "--workers", "2"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            match = re.search(r"at (http://\S+)/v1", server.stderr.readline())
            assert match
            _wait_for(match[1], server)
            yield match[1]
        finally:
            server.terminate()
    assert server.returncode == 0


def _wait_for(url: str, server: subprocess.Popen[str]) -> None:
    assert server.stderr is not None
    while not _answers(url):
        assert server.poll() is None, server.stderr.read()
        time.sleep(0.1)


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/health").status_code == 200
    return False


@pytest.mark.nightly
@pytest.mark.loopback
@pytest.mark.parametrize("kind", ["lance", "pg"])
def test_answers_are_of_one_state_while_a_writer_changes_it(kind: str, tmp_path: Path) -> None:
    pytest.importorskip({"lance": "lancedb", "pg": "pgvector"}[kind])
    if kind == "pg" and postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL with pgvector")
    states, answered = [0], Counter[int]()

    def passages_read(request: dict[str, Any]) -> str:
        return "states " + " ".join(re.findall(r"State (\d+) of", str(request["messages"])))

    def ask(url: str) -> None:
        before = states[-1]
        body = {"model": "concat", "messages": [{"role": "user", "content": "What is the state of Alden?"}]}
        reply = httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).json()
        read = re.findall(r"\d+", reply["choices"][0]["message"]["content"].partition("states")[2])
        assert len(read) == 5 and len({*read}) == 1, "passages of several states, or not all of one"
        assert int(read[0]) >= before, "a state that was no longer there when the question came"
        answered[int(read[0])] += 1

    with ExitStack() as stack:
        place = tmp_path / "kb" if kind == "lance" else f"{stack.enter_context(postgres_server.postgres())}#kb"
        address = f"{kind}:{place}"
        kb = stack.enter_context(ServedKnowledgeBase(address, settings={"embedding": None}))

        def write() -> None:
            state = states[-1] + 1
            kb.index_documents([Document(f"State {state} of Alden, part {at}.") for at in range(5)], "all")
            states.append(state)

        write()
        server = stack.enter_context(OpenAIServer(passages_read))
        url = stack.enter_context(two_processes(address, f"openai:x?base_url={server.base_url}"))
        clients = stack.enter_context(ThreadPoolExecutor(4))
        asked = [clients.submit(ask, url) for _ in range(200)]
        while not all(each.done() for each in asked):
            write()
        for each in asked:
            each.result()
    assert answered.total() == 200 and len(answered) > 5


@pytest.mark.loopback
async def test_an_agent_starts_it_on_standard_input_and_output(kb: Path, model: str) -> None:
    methods = ["concat_pf", "research", "--mcp", "--kb", str(kb), "--model", model]
    given = StdioServerParameters(command=SERVE[0], args=[*SERVE[1:], *methods], env={**os.environ})
    async with Client(given) as client:
        answer = await client.call_tool("ask", {"question": "Who signed the contract?"})
        result = await client.call_tool("search", {"query": "contract"})
        tools = [tool.name for tool in (await client.list_tools()).tools]
        (source,) = (await client.list_resources()).resources
    assert answer.content[0].text.splitlines()[0] == "Ada Brenner [1]"  # type: ignore[union-attr]
    assert 'source="Contract — contract.md"' in result.content[0].text  # type: ignore[union-attr]
    assert (tools, source.name) == (["ask", "research", "search", "fetch"], "contract.md")


MISTAKES = [
    (("concat", "--host", "0.0.0.0"), "can be reached from other machines"),
    (("concat", "--api-key", ""), "an API key is empty"),
    (("concat", "--port", "70000"), "'--port'"),
    (("concat", "--http"), "--http needs --mcp"),
    (("concat", "--mcp", "--threads", "x"), "leave out --mcp"),
    (("concat", "direct", "--mcp"), "--mcp serves one method, and research"),
    (("concat", "--threads", "/no/such/folder/file"), "--threads /no/such/folder/file: unable to open"),
    (("nope",), "unknown method 'nope'"),
    (("concat", "-o", "kk=1"), "has no option 'kk'"),
    (("concat", "--host", "no.such.host.invalid", "--no-key"), "cannot listen on"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
@pytest.mark.loopback
def test_a_mistake_is_one_line_before_anything_is_served(args: tuple[str, ...], message: str, kb: Path) -> None:
    done = run("serve", *args, "--kb", str(kb))
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1]


@pytest.mark.loopback
def test_a_taken_port_is_named_with_what_to_do(kb: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "concat", "--kb", str(kb), "--port", str(port))
    assert done.returncode == 2
    assert "another program is listening; choose another port with --port" in done.stderr


def test_a_method_that_searches_needs_a_knowledge_base(tmp_path: Path) -> None:
    done = run("serve", "concat", cwd=tmp_path)
    assert (done.returncode, "there is no knowledge base at 'kb'" in done.stderr) == (2, True)
