"""Keys and passwords: in no output, run directory, trace, report, cache, error or checkpoint."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import sqlite3
import traceback
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from tests import command
from tests.openai_server import HttpFault, OpenAIServer
from tests.scripted import ListRetriever, documents

from ragweave import build_graph
from ragweave.cli.watch import Calls
from ragweave.tools.models import chat_model
from ragweave.tools.text.secrets import has_secret, redacted, without_secrets

pytestmark = pytest.mark.loopback

KEY, PASSWORD, OWN = "sk-planted-key-1111", "planted-password-2222", "planted:of:no:form:3333"
SECRETS = (KEY, PASSWORD, OWN)


@pytest.fixture
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def leaks(text: str | bytes) -> list[str]:
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return [one for one in SECRETS if one.encode() in data]


def leaking(folder: Path) -> dict[str, list[str]]:
    """Return the files below a folder that hold a secret."""
    found = {str(one): leaks(one.read_bytes()) for one in folder.rglob("*") if one.is_file()}
    return {name: held for name, held in found.items() if held}


def with_password(server: OpenAIServer) -> str:
    return server.base_url.replace("http://", f"http://user:{PASSWORD}@")


REPLIES: dict[str, Any] = {
    "answers": "So the answer is 1932",
    "refuses": HttpFault(401, message=f"Incorrect API key provided: {KEY}"),
    "quotes": HttpFault(400, message=f"no route http://user:{PASSWORD}@host/v1?api_key={KEY} Bearer {KEY}"),
    "fails": HttpFault(500, message=f"Authorization: Bearer {KEY}"),
}


@pytest.mark.usefixtures("_key")
@pytest.mark.parametrize(
    "reply",
    [
        "answers",
        "quotes",
        pytest.param("refuses", marks=pytest.mark.attack),
        pytest.param("fails", marks=pytest.mark.attack),
    ],
)
def test_commands_tell_no_secret(
    reply: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trials: Callable[[int], None]
) -> None:
    data = tmp_path / "qa.jsonl"
    passage = {"title": "a", "text": "It opened in 1932."}
    row = {"question": "When did it open?", "answers": ["1932"], "passages": [passage]}
    data.write_text(json.dumps(row) + "\n")
    with OpenAIServer([REPLIES[reply]]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", with_password(server))
        trace = str(tmp_path / "trace.json")
        direct = ("--method", "direct", "--model", "openai:m?max_retries=0")
        model = ("--model", "openai:m?max_retries=0")
        told = [
            command.run("ask", "When?", *direct, "--trace-file", trace, "--json", cwd=tmp_path),
            command.run("ask", "When?", *direct, "--trace", cwd=tmp_path),
            command.run(
                *("eval", f"jsonl:{data}", "--methods", "concat", "--corpus", "given", *model),
                *("--out", "run", "--cache", "cache.sqlite"),
                cwd=tmp_path,
            ),
            command.run("label", "judge", f"jsonl:{data}", "--proxy", model[1], "--out", "l.jsonl",
                        cwd=tmp_path),
        ]  # fmt: skip
        if reply == "answers":
            assert [one.returncode for one in told] == [0] * len(told), [t.stderr for t in told]
            told.append(command.run("trace", trace, "--html", "t.html", cwd=tmp_path))
            told.append(command.run("report", "run", "--out", "r", cwd=tmp_path))
            assert [one.returncode for one in told[-2:]] == [0, 0], [t.stderr for t in told]
            assert (tmp_path / "r" / "report.html").is_file()
            told.append(command.run("doctor", cwd=tmp_path))
    for one in told:
        assert not leaks(one.stdout + one.stderr), one.args
        assert "Traceback" not in one.stderr
    assert leaking(tmp_path) == {}
    trials(len(told) - 1)


@pytest.mark.usefixtures("_key")
def test_a_checkpoint_a_log_and_a_callback_hold_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    told: list[str] = []

    class Looking(Calls):
        def on_chat_model_start(self, *args: Any, **more: Any) -> None:
            told.append(repr((args, more)))
            super().on_chat_model_start(*args, **more)

    with OpenAIServer(["So the answer is 1932", REPLIES["quotes"]]) as server:
        model = chat_model(f"openai:m?base_url={with_password(server)}&max_retries=0&api_key={KEY}")
        assert not leaks(repr(model))
        with SqliteSaver.from_conn_string(str(tmp_path / "threads.sqlite")) as saver:
            graph = build_graph(
                "concat",
                model=model,
                retriever=ListRetriever(documents=documents("It opened in 1932.")),
                checkpointer=saver,
            )
            watch = Looking()
            settings: Any = {"configurable": {"thread_id": "a"}, "callbacks": [watch]}
            graph.invoke({"question": "When?"}, settings)
            header = server.requests[0].headers["authorization"]
            assert base64.b64decode(header.removeprefix("Basic ")).decode() == f"user:{PASSWORD}"
            assert leaking(tmp_path) == {}
            settings["configurable"]["thread_id"] = "b"
            with pytest.raises(Exception, match="no route") as failed:
                graph.invoke({"question": "When?"}, settings)
            assert not leaks("".join(traceback.format_exception(failed.value)))
            assert has_error(tmp_path / "threads.sqlite")
            assert leaking(tmp_path) == {}
    assert told
    assert [one for one in told if leaks(one)] == []
    assert [one.getMessage() for one in caplog.records if leaks(one.getMessage())] == []
    assert not leaks(repr(watch.__dict__))


def has_error(checkpoints: Path) -> bool:
    """Say whether a file of checkpoints records a task that failed."""
    with closing(sqlite3.connect(checkpoints)) as state:
        query = "SELECT COUNT(*) FROM writes WHERE channel = '__error__'"
        return bool(state.execute(query).fetchone()[0])


@pytest.mark.parametrize("is_async", [False, True])
def test_a_key_of_no_known_form_that_a_server_quotes_reaches_no_checkpoint(is_async: bool) -> None:
    saver = InMemorySaver()
    with OpenAIServer([HttpFault(401, message=f"Incorrect API key provided: {OWN}")]) as server:
        model = chat_model(f"openai:m?base_url={server.base_url}&max_retries=0&api_key={OWN}")
        graph = build_graph("direct", model=model, checkpointer=saver)
        settings: Any = {"configurable": {"thread_id": "a"}}
        with pytest.raises(Exception, match="Incorrect API key") as failed:
            if is_async:
                asyncio.run(graph.ainvoke({"question": "When?"}, settings))
            else:
                graph.invoke({"question": "When?"}, settings)
    assert not leaks("".join(traceback.format_exception(failed.value)))
    assert not leaks(repr(vars(failed.value)))
    found = list(saver.list(settings))
    assert "Incorrect API key provided: ***" in repr(found[0].pending_writes)
    assert not leaks(repr(found))


@pytest.mark.parametrize(
    ("spec", "secret"),
    [
        ("openai:m", False),
        ("openai:m?base_url=http://host/v1&max_tokens=5", False),
        ("openai:m?api_key=none", False),
        (f"openai:m?api_key={KEY}", True),
        (f"openai:m?base_url=http://user:{PASSWORD}@host/v1", True),
        (f"openai:m?base_url=http://host/v1%3Fapi_key%3D{KEY}", True),
        ("llamacpp:model.gguf?n_threads=1", False),
        ("part:folder", False),
    ],
)
def test_a_run_takes_no_spec_with_a_secret(spec: str, secret: bool, tmp_path: Path) -> None:
    assert has_secret(spec) is secret
    assert not leaks(redacted(spec))
    if secret:
        data = tmp_path / "qa.jsonl"
        data.write_text('{"question": "When?", "answers": ["x"]}\n')
        args = ("eval", f"jsonl:{data}", "--methods", "direct", "--out", str(tmp_path / "run"))
        told = command.run(*args, "--model", spec)
        assert (told.returncode, told.stderr.count("\n")) == (2, 1)
        assert "by the environment instead" in told.stderr
        assert not leaks(told.stderr)
        assert not (tmp_path / "run").exists()


@pytest.mark.usefixtures("_key")
def test_texts_lose_secrets_and_nothing_else() -> None:
    plain = "The key is 5; max_tokens=7, see http://host:80/a?b=c and a@b.example, sk-1."
    assert without_secrets(plain) == plain
    assert without_secrets(f"at http://u:{PASSWORD}@h/?x=1&api_key={KEY}&y=2: {KEY}") == (
        "at http://***@h/?x=1&api_key=***&y=2: ***"
    )
    assert os.environ["OPENAI_API_KEY"] == KEY
