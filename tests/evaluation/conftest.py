"""A real server of OpenAI's protocol on loopback, and a file of questions."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.openai_server import OpenAIServer, Reply

Questions = Callable[[int], str]
"""Writes a file of so many questions with passages, and returns its spec."""


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    """A server that answers 1931; its `script` may be replaced, `requests` holds what came."""
    with OpenAIServer(lambda _: Reply("1931", (100, 10))) as server:
        yield server


@pytest.fixture
def spec(server: OpenAIServer) -> str:
    return f"openai:m?base_url={server.base_url}"


@pytest.fixture
def questions(tmp_path: Path) -> Questions:
    """Writes a file of so many questions with passages, and returns its spec."""

    def write(count: int) -> str:
        rows = [
            {
                "id": str(at),
                "question": f"When did bridge {at} open?",
                "answers": ["1931"],
                "passages": [f"Bridge {at}, part {part}, opened in 1931." for part in range(3)],
            }
            for at in range(count)
        ]
        path = tmp_path / "questions.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        return f"jsonl:{path}"

    return write
