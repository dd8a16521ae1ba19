"""`ragweave serve` as a process: to OpenAI's client, and as an agent's MCP server."""

from __future__ import annotations

import os
import re
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
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
from tests.servers import ragweave_served

from ragweave.tools.knowledge import ServedKnowledgeBase


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
    store = ("--threads", str(tmp_path / "threads.sqlite"))
    with ragweave_served("concat", "direct", "--kb", str(kb), "--model", model, "--api-key", "k", *store) as (url, _):
        client = OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)
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


@pytest.mark.nightly
@pytest.mark.loopback
def test_several_processes_serve_one_folder_and_count_together(kb: Path, model: str) -> None:
    with ragweave_served("concat", "--kb", str(kb), "--model", model, "--workers", "2") as (url, _):
        body = {"model": "concat", "messages": [{"role": "user", "content": "Who signed the contract?"}]}
        for _ in range(6):  # each by a connection of its own, which any process may take
            assert httpx.post(f"{url}/v1/chat/completions", json=body, timeout=60).status_code == 200
        assert 'status="200"} 6.0' in httpx.get(f"{url}/metrics").text
        wrong = httpx.get(f"{url}/v1/models", headers={"host": "evil.example"})
        assert wrong.status_code == 421


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
        given = ("--kb", address, "--model", f"openai:x?base_url={server.base_url}", "--workers", "2")
        url, _ = stack.enter_context(ragweave_served("concat", *given))
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
    serve = ["-m", "ragweave", "serve", *methods]
    given = StdioServerParameters(command=sys.executable, args=serve, env={**os.environ})
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
