"""Replies kept across runs: an ablation pays only for what differs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from tests.evaluation.towns import planned, read_year, reader, records, run
from tests.scripted import ScriptedChat, Seen, SyncScriptedChat

from ragweave.errors import UsageError
from ragweave.evaluation.runs.broker import CallBroker, PendingCall
from ragweave.evaluation.runs.calls import ModelCall, ReplyCache
from ragweave.evaluation.runs.recorder import connect
from ragweave.evaluation.runs.settings import cache_name


def test_a_second_run_pays_only_for_what_differs(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    full = planned(tmp_path / "full", "blendfilter[k=2]", count=3)
    run(full, reader(), cache=cache)
    ablated = planned(tmp_path / "ablated", "blendfilter[k=2,knowledge_filter=false]", count=3)
    model = reader()
    result = run(ablated, model, cache=cache)
    spent = result.progress.spent
    assert spent.paid_calls == len(model.seen)
    assert spent.cached_calls >= 3 * 2  # both augmentations of each question at least
    assert spent.paid_calls < spent.paid_calls + spent.cached_calls
    alone = planned(tmp_path / "alone", "blendfilter[k=2,knowledge_filter=false]", count=3)
    run(alone, reader())
    for one, other in zip(records(ablated), records(alone), strict=True):
        assert {**one, "spent": 0} == {**other, "spent": 0}


def test_systems_that_ask_the_same_at_the_same_time_pay_once(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat[k=2],concat_pf[k=2]", count=4)
    model = ScriptedChat(replies=["1900"], delay=0.01)
    result = run(directory, model, cache=tmp_path / "replies.sqlite", concurrency=8)
    assert len(model.seen) == 4
    assert (result.progress.spent.paid_calls, result.progress.spent.cached_calls) == (4, 4)


class Ollama(ScriptedChat):
    """Takes the settings of a call in one table."""

    num_predict: int | None = None


@pytest.mark.parametrize("kind", [ScriptedChat, Ollama])
def test_samples_of_one_prompt_stay_apart(tmp_path: Path, kind: type[ScriptedChat]) -> None:
    cache = tmp_path / "replies.sqlite"
    numbers = iter(range(1000))
    model = kind(replies=lambda _seen: str(next(numbers)))
    first = planned(tmp_path / "first", "concat[k=2,samples=3]", count=2)
    run(first, model, cache=cache, concurrency=1)
    assert len(model.seen) == 6
    second = planned(tmp_path / "second", "concat[k=2,samples=3]", count=2)
    idle = kind(replies=["1900"])
    run(second, idle, cache=cache, concurrency=1)
    assert idle.seen == []
    answers = [
        [candidate["answer"] for candidate in one["candidates"].values()] for one in records(second)
    ]
    assert answers == [
        [candidate["answer"] for candidate in one["candidates"].values()] for one in records(first)
    ]
    assert all(len(set(listed)) == 3 for listed in answers)


def test_another_model_has_other_replies(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    run(planned(tmp_path / "a", "direct", models={"answer": "one"}), reader(), cache=cache)
    model = reader()
    run(planned(tmp_path / "b", "direct", models={"answer": "two"}), model, cache=cache)
    assert len(model.seen) == 6


def test_another_server_or_other_weights_have_other_replies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, cache = tmp_path / "m.gguf", tmp_path / "replies.sqlite"

    def asked(name: str, spec: str) -> int:
        directory = planned(tmp_path / name, "direct", models={"answer": spec})
        model = reader()
        run(directory, model, cache=cache)
        return len(model.seen)

    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://one:8000/v1")
    assert (asked("a", "openai:local"), asked("b", "openai:local")) == (6, 0)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://two:8000/v1")
    assert asked("c", "openai:local") == 6
    weights.write_bytes(b"GGUF one")
    assert (asked("d", f"llamacpp:{weights}"), asked("e", f"llamacpp:{weights}")) == (6, 0)
    weights.write_bytes(b"GGUF two")
    assert asked("f", f"llamacpp:{weights}") == 6


def test_replies_of_openais_own_server_are_kept_under_the_names_of_earlier_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    settings = planned(tmp_path, "direct", models={"answer": "openai:m"}).settings
    assert cache_name("openai:m", settings) == "openai:m"


def test_a_failed_call_is_not_kept(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    bad = ScriptedChat(replies=[RuntimeError("no")])
    assert run(planned(tmp_path / "a", "direct"), bad, cache=cache).progress.failed == 6
    model = reader()
    run(planned(tmp_path / "b", "direct"), model, cache=cache)
    assert len(model.seen) == 6


class LengthFinishReasonError(Exception):
    """What OpenAI's client raises, by its name, where a held reply ends at its limit."""

    completion = SimpleNamespace(
        choices=[], usage=SimpleNamespace(prompt_tokens=9, completion_tokens=32)
    )


@pytest.mark.parametrize("kind", [ScriptedChat, SyncScriptedChat])
def test_a_held_reply_that_was_cut_is_kept_and_paid_for(
    tmp_path: Path, kind: type[SyncScriptedChat]
) -> None:
    cut = LengthFinishReasonError("the length limit was reached")
    model = kind(replies=[cut])
    result = run(planned(tmp_path, "direct"), model, cache=tmp_path / "replies")
    made = len(model.seen)
    assert made > 6  # the first ones were asked for again, with room for thoughts
    assert (result.progress.failed, result.progress.spent.paid_tokens) == (0, made * 41)
    with ReplyCache(tmp_path / "replies") as cache:
        assert len(cache) == made


def test_who_waits_for_a_reply_gets_it_though_its_caller_was_cancelled(tmp_path: Path) -> None:
    class Slow:
        async def write(self, *_: object) -> None:
            await asyncio.Event().wait()

    def call(thread: str) -> ModelCall:
        return ModelCall("m", "answer", thread, "0", "the same", [HumanMessage("Where?")])

    async def work() -> PendingCall:
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            broker = CallBroker(Slow(), connect(tmp_path / "state.sqlite"), cache)  # type: ignore[arg-type]
            for thread in ("0/a", "1/a"):
                broker.begin(thread, unfinished=False)
            mine = await broker.open(call("0/a"))
            closing = asyncio.ensure_future(broker.close(mine, AIMessage("Alden")))
            waiting = asyncio.ensure_future(broker.open(call("1/a")))
            await asyncio.sleep(0)
            broker.recorder.write = AsyncMock()  # type: ignore[method-assign]
            closing.cancel()
            await asyncio.wait([closing])
            found = await asyncio.wait_for(waiting, 60)
            broker.state.close()
            return found

    reply = asyncio.run(work()).reply
    assert reply is not None
    assert reply.content == "Alden"


def test_who_waits_for_a_reply_that_cannot_be_kept_goes_on(tmp_path: Path) -> None:
    endless: dict[str, Any] = {}
    endless["itself"] = endless

    def call(thread: str) -> ModelCall:
        return ModelCall("m", "answer", thread, "0", "the same", [HumanMessage("Where?")])

    async def work() -> None:
        with ReplyCache(tmp_path / "replies.sqlite") as cache:
            broker = CallBroker(AsyncMock(), connect(tmp_path / "state.sqlite"), cache)
            for thread in ("0/a", "1/a"):
                broker.begin(thread, unfinished=False)
            mine = await broker.open(call("0/a"))
            waiting = asyncio.ensure_future(broker.open(call("1/a")))
            await asyncio.sleep(0)
            with pytest.raises(ValueError, match=r"[Cc]ircular"):
                await broker.close(mine, AIMessage("Alden", additional_kwargs=endless))
            with pytest.raises(ValueError, match=r"[Cc]ircular"):
                await asyncio.wait_for(waiting, 60)
            broker.state.close()

    asyncio.run(work())


@pytest.mark.parametrize("kind", [ScriptedChat, SyncScriptedChat])
def test_a_model_whose_replies_are_no_messages_ends_the_run_at_its_first(
    tmp_path: Path, kind: type[SyncScriptedChat]
) -> None:
    model = kind(replies=read_year)
    with pytest.raises(UsageError, match="replied with a text, and not with a message"):
        run(
            planned(tmp_path, "direct"),
            model | StrOutputParser(),
            cache=tmp_path / "replies",
            concurrency=1,
        )
    assert len(model.seen) == 1


def test_a_reply_that_comes_after_its_question_failed_is_kept(tmp_path: Path) -> None:
    """A thread goes on where a sibling's error has ended the question."""

    def breaks(seen: Seen) -> str | Exception:
        return RuntimeError("no") if "port" in seen.text else read_year(seen)

    cache = tmp_path / "replies.sqlite"
    model = SyncScriptedChat(replies=breaks, delay=0.05)
    result = run(planned(tmp_path, "post_fusion[k=2],pf_concat[k=2]"), model, cache=cache)
    assert result.progress.failed == 12


def test_a_cache_that_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("no database at all, but long enough to look like one" * 20)
    with pytest.raises(UsageError, match="--cache"):
        run(planned(tmp_path, "direct"), reader(), cache=tmp_path / "mine.txt")


def test_a_model_without_async_methods_passes_the_desk_too(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    model = SyncScriptedChat(replies=read_year, usage=(10, 2), together=4)
    first = planned(tmp_path / "a", "concat[k=2]")
    result = run(first, model, cache=cache, concurrency=4)
    assert (result.progress.answered, result.progress.spent.paid_calls) == (6, 6)
    assert model.most_at_once == 4
    again = planned(tmp_path / "b", "concat[k=2]")
    result = run(again, SyncScriptedChat(replies=[AssertionError("asked")]), cache=cache)
    assert (result.progress.answered, result.progress.spent.cached_calls) == (6, 6)
    bad = SyncScriptedChat(replies=[RuntimeError("no")])
    assert run(planned(tmp_path / "c", "direct"), bad, cache=cache).progress.failed == 6
