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

from ragweave.cli.serve import mcp, serve
from ragweave.errors import UsageError
from ragweave.tools.knowledge import KnowledgeBase, Settings

pytestmark = pytest.mark.loopback
QUESTION = "When was the Old Bridge opened?"


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
            mcp(kb=kb, model=LEXICAL[1], http=True, host="0.0.0.0")
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
        mcp(http=True, **started)


def test_a_method_that_is_not_there_is_said(kb: Path) -> None:
    with pytest.raises(UsageError, match="concatt"):
        serve(["concatt"], kb=kb, model=LEXICAL[1])
