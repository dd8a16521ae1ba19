"""Replies are stored as they came, found again by another process, and never taken for another call's."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import HumanMessage
from pydantic import BaseModel
from tests.evaluation.conftest import Questions
from tests.openai_server import HttpFault, OpenAIServer, Reply

from ragweave import chat_model
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings, evaluate
from ragweave.testing import ScriptedModel
from ragweave.tools.models.messages import Task, attach
from ragweave.tools.replies import ReplyCache, asking

pytestmark = pytest.mark.loopback


@pytest.fixture
def open_again(tmp_path: Path, spec: str) -> Callable[..., Any]:
    """Opens the cache and the model again, as another process would."""
    return lambda query="": ReplyCache(tmp_path / "r.sqlite", run="one").attach(chat_model(spec + query), "m")


@pytest.fixture
def numbered(server: OpenAIServer) -> None:
    numbers = count(1)
    server.script = lambda _: Reply(f"reply {next(numbers)}", (100, 10))


def ask(model: Any, *texts: str, at_once: bool = False) -> tuple[list[str], int]:
    async def work() -> tuple[list[str], int]:
        with asking() as asked:
            if at_once:
                replies = await asyncio.gather(*(model.ainvoke(text) for text in texts))
            else:
                replies = [await model.ainvoke(text) for text in texts]
        return [reply.text for reply in replies], asked.paid

    return asyncio.run(work())


@pytest.mark.usefixtures("numbered")
def test_the_same_call_of_one_question_is_another_sample(open_again: Callable[..., Any]) -> None:
    first, paid = ask(open_again(), "hi", "hi", "hi", at_once=True)
    assert len(set(first)) == paid == 3
    again, paid = ask(open_again(), "hi", "hi", "hi", at_once=True)
    assert (sorted(again), paid) == (sorted(first), 0)


def test_a_reply_that_was_broken_off_is_asked_for_anew(open_again: Callable[..., Any], server: OpenAIServer) -> None:
    server.script = [Reply("half", finish_reason="error"), Reply("whole")]
    assert ask(open_again(), "hi") == (["half"], 0)
    assert ask(open_again(), "hi") == (["whole"], 1)
    assert ask(open_again(), "hi") == (["whole"], 0)


@pytest.mark.usefixtures("numbered")
def test_another_question_gets_the_first_reply(open_again: Callable[..., Any]) -> None:
    model = open_again()
    assert ask(model, "hi") == (["reply 1"], 1)
    assert ask(model, "hi") == (["reply 1"], 0)


def test_a_call_that_failed_leaves_no_gap(server: OpenAIServer, open_again: Callable[..., Any]) -> None:
    good, server.script = server.script, lambda _: HttpFault(400, message="no")
    model = open_again()

    async def work() -> None:
        with asking():
            with pytest.raises(Exception, match="no"):
                await model.ainvoke("hi")
            server.script = good
            await model.ainvoke("hi")

    asyncio.run(work())
    assert ask(open_again(), "hi")[1] == 0


def test_usage_and_log_probabilities_are_stored(server: OpenAIServer, open_again: Callable[..., Any]) -> None:
    server.script = lambda _: Reply("a", (100, 10), logprob=-0.5)
    for _ in range(2):
        message = open_again("&logprobs=true").invoke("hi")
        assert message.response_metadata["logprobs"]["content"][0]["logprob"] == -0.5
        assert message.usage_metadata["input_tokens"] == 100
    assert server.count == 1


def test_streams_go_through_the_cache(server: OpenAIServer, open_again: Callable[..., Any]) -> None:
    open_again().invoke("hi")
    assert "".join(chunk.text for chunk in open_again().stream("hi")) == "1931"

    async def work() -> list[Any]:
        return [chunk async for chunk in open_again().astream("hi")]

    assert asyncio.run(work())
    assert server.count == 1


class Verdict(BaseModel):
    """A verdict."""

    right: bool


@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_structured_output_is_read_from_the_cache(
    server: OpenAIServer, open_again: Callable[..., Any], method: str
) -> None:
    server.script = lambda _: '{"right": true}'
    for _ in range(2):
        chain = open_again().with_structured_output(Verdict, method=method)
        assert asyncio.run(chain.ainvoke("hi")) == Verdict(right=True)
    assert server.count == 1


def test_models_and_settings_have_keys_of_their_own(
    server: OpenAIServer, open_again: Callable[..., Any], tmp_path: Path, spec: str
) -> None:
    open_again().invoke("hi")
    open_again("&temperature=0.7").invoke("hi")
    assert server.count == 2
    cache = ReplyCache(tmp_path / "local.sqlite")
    first, second = (cache.attach(FakeListChatModel(responses=[name]), name) for name in "ab")
    assert (first.invoke("hi").text, second.invoke("hi").text) == ("a", "b")
    used: Any = chat_model(spec)
    used.invoke("hi")  # LangChain now remembers the model's description
    for temperature in (0.0, 0.9):
        cache.attach(used.model_copy(update={"temperature": temperature}), "m").invoke("hi")
    assert server.count == 5


def test_half_a_character_is_stored(tmp_path: Path) -> None:
    model = ReplyCache(tmp_path / "r.sqlite").attach(FakeListChatModel(responses=["a \ud83d", "other"]), "m")
    assert model.invoke("hi \ud83d").text == model.invoke("hi \ud83d").text == "a \ud83d"


def test_replies_of_a_fallback_are_stored_too(tmp_path: Path) -> None:
    def fails(_call: Any) -> str:
        raise ConnectionError("connection refused")

    fallback = ScriptedModel(script=["Ada", "Bo"])
    for _ in range(2):
        model = ReplyCache(tmp_path / "r.sqlite").attach(ScriptedModel(script=fails).with_fallbacks([fallback]), "m")
        assert model.invoke("Who?").text == "Ada"


def test_what_was_spent_is_counted_by_run(spec: str, tmp_path: Path, open_again: Callable[..., Any]) -> None:
    ask(open_again(), "a", "b")
    cache = ReplyCache(tmp_path / "r.sqlite", run="other")
    cache.attach(chat_model(spec), "m").invoke("a")
    assert cache.spent == {}
    assert ReplyCache(tmp_path / "r.sqlite", run="one").spent == {"m": [2, 200, 20]}


def test_servers_of_the_environment_have_keys_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = set()
    with OpenAIServer(["one"]) as first, OpenAIServer(["other"]) as second:
        for server in (first, second):
            monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
            model = ReplyCache(tmp_path / "r.sqlite").attach(chat_model("openai:m"), "openai:m")
            replies.add(ask(model, "hi")[0][0])
    assert replies == {"one", "other"}


def test_a_model_that_reads_tasks_is_asked_again_for_another_task(tmp_path: Path) -> None:
    model = ReplyCache(tmp_path / "r.sqlite").attach(chat_model("extractive"), "extractive")
    passage = {"id": "p", "title": "", "text": "The bridge at Alden was built by Ada Brenner in 1931."}
    tasks: list[Task] = [
        {"task": "answer", "question": "Who built the bridge at Alden?", "passages": [passage]},  # type: ignore[list-item]
        {"task": "topic", "question": "Who built the bridge at Alden?"},
    ]
    replies = []
    for task in tasks:
        with asking() as asked:
            replies.append(model.invoke([attach(HumanMessage("?"), task)]).text)
        assert asked.paid == 1
    assert replies[0] != replies[1]


def test_calls_alike_that_are_under_way_share_one_reply(open_again: Callable[..., Any], server: OpenAIServer) -> None:
    numbers = count(1)
    server.script = lambda _: Reply(f"reply {next(numbers)}", (100, 10), delay=0.05)
    model = open_again()

    async def question(samples: int) -> tuple[list[str], int]:
        with asking() as asked:
            replies = await asyncio.gather(*(model.ainvoke("hi") for _ in range(samples)))
        return sorted(reply.text for reply in replies), asked.paid

    async def work() -> list[tuple[list[str], int]]:
        return await asyncio.gather(question(3), question(3), question(1))

    first, second, third = asyncio.run(work())
    assert server.count == 3
    assert first == (["reply 1", "reply 2", "reply 3"], 3)
    assert second == (first[0], 0)
    assert {*third[0]} < {*first[0]}
    assert third[1] == 0


def test_a_call_waits_for_none_that_fails(open_again: Callable[..., Any], server: OpenAIServer) -> None:
    numbers = count(1)
    server.script = lambda _: HttpFault(400, message="no") if next(numbers) == 1 else "yes"
    model = open_again()

    async def question() -> str:
        with asking():
            return str((await model.ainvoke("hi")).text)

    async def work() -> list[Any]:
        return await asyncio.gather(question(), question(), question(), return_exceptions=True)

    failed, *others = asyncio.run(work())
    assert "no" in str(failed)
    assert others == ["yes", "yes"]
    assert server.count == 2


def test_methods_that_begin_alike_pay_for_no_prompt_twice(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    server.script = lambda _: Reply("Unknown", (100, 10), delay=0.01)
    systems = ("concat", "concat_pf", "post_fusion", "pf_concat")
    run = EvalSettings(data=questions(12), systems=systems, models={"generator": spec})
    assert evaluate(run, tmp_path / "served", quiet=True).answered == 48
    assert max(Counter(json.dumps(request.body) for request in server.requests).values()) == 1
    model = ScriptedModel(script=["Unknown"])
    evaluate(run, tmp_path / "scripted", quiet=True, given={"generator": model})
    assert max(Counter(call.text for call in model.calls).values()) == 1
    assert len(model.calls) == server.count


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "replies.sqlite"
    path.write_bytes(b"not a database" * 500)
    with pytest.raises(UsageError, match=r"replies\.sqlite is damaged .* if you delete it"):
        ReplyCache(path)
