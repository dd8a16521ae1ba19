"""A server that fails three calls in ten: no question is lost, none is counted twice."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.files import write_lines
from tests.evaluation.towns import planned, records, run
from tests.openai_server import (
    Answer,
    BrokenJson,
    Drop,
    Hang,
    HttpFault,
    OpenAIServer,
)
from tests.scripted import ScriptedChat, Seen

from ragweave.errors import PromptTooLongError
from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunResult,
    claim_directory,
    evaluate,
    plan,
    system,
)
from ragweave.tools.models import ChatModel, chat_model

pytestmark = pytest.mark.loopback

ERRORS: tuple[Answer, ...] = (
    HttpFault(429),
    HttpFault(500),
    Hang(5),
    Drop(),
    Drop(after=2),
    BrokenJson(),
)


def flaky(share: float, seed: int) -> Any:
    """Return a script that answers, but for a share of errors of every kind in turn."""
    drawn, lock, turn = random.Random(seed), threading.Lock(), iter(range(10**6))

    def script(_body: dict[str, Any]) -> Answer:
        with lock:
            return ERRORS[next(turn) % len(ERRORS)] if drawn.random() < share else "1900"

    return script


def model_of(server: OpenAIServer) -> ChatModel:
    settings = "&timeout=1.0&max_retries=0&streaming=true"
    return chat_model(f"openai:scripted?base_url={server.base_url}{settings}")


def resume(directory: RunDirectory, server: OpenAIServer, **config: Any) -> RunResult:
    model = {"answer": model_of(server)}
    return asyncio.run(evaluate(directory, RunConfig(concurrency=16, **config), models=model))


def test_three_calls_in_ten_fail(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat[k=2]", count=15)
    with OpenAIServer(flaky(0.3, seed=7)) as server:
        result = resume(directory, server)
    assert result.complete
    assert result.progress.answered + result.progress.failed == 30
    found = records(directory)
    assert Counter((one["at"], one["system"]) for one in found).most_common(1)[0][1] == 1
    assert len(found) == 30
    for one in found:
        if one["error"]:
            assert one["error"]["kind"]
            assert one["error"]["text"]
        else:
            assert one["answer"] == "1900"
    assert result.progress.answered > 15  # most calls get through, at once or on a later try

    lost = result.progress.failed
    with OpenAIServer("1900") as healthy:
        result = resume(directory, healthy, retry_failed=True)
        assert healthy.count == lost
    assert (result.progress.answered, result.progress.failed) == (30, 0)
    assert len(records(directory)) == 30


def test_a_refused_key_ends_the_run_and_leaves_it_to_go_on(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    with OpenAIServer("1900", key="right") as server, pytest.raises(Exception, match="401"):
        resume(directory, server)
    assert not records(directory)
    with OpenAIServer("1900") as server:
        assert resume(directory, server).progress.answered == 6


@pytest.mark.parametrize("counted", ["by us", "by the model"])
def test_a_question_that_is_too_long_fails_alone(counted: str, tmp_path: Path) -> None:
    long = f"{'When did the bridge of Varn open? ' * 100}"
    rows = [{"question": one, "answers": ["1900"]} for one in ("Who?", long, "When?")]
    file = write_lines(tmp_path / "long.jsonl", *rows)
    options = {"prompt_tokens": 400} if counted == "by us" else {}
    settings = plan(f"jsonl:{file}", [system("direct", **options)], {"answer": "scripted"})
    directory = claim_directory(tmp_path / "run", settings)

    def said(seen: Seen) -> str | Exception:
        return PromptTooLongError("the prompt has 900 tokens") if len(seen.text) > 2000 else "1900"

    result = run(directory, ScriptedChat(replies=said))
    assert (result.complete, result.progress.answered, result.progress.failed) == (True, 2, 1)
    (bad,) = [one for one in records(directory) if one["error"]]
    assert bad["at"] == 1
    assert bad["error"]["kind"] == "PromptTooLongError"
    assert run(directory, ScriptedChat(replies=said), retry_failed=True).progress.failed == 1
