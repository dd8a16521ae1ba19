"""Replies kept across runs: an ablation pays only for what differs."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evaluation.towns import planned, read_year, reader, records, run
from tests.scripted import ScriptedChat, SyncScriptedChat

from ragweave.errors import UsageError


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


def test_samples_of_one_prompt_stay_apart(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    numbers = iter(range(1000))
    model = ScriptedChat(replies=lambda _seen: str(next(numbers)))
    first = planned(tmp_path / "first", "concat[k=2,samples=3]", count=2)
    run(first, model, cache=cache, concurrency=1)
    assert len(model.seen) == 6
    second = planned(tmp_path / "second", "concat[k=2,samples=3]", count=2)
    idle = reader()
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


def test_a_failed_call_is_not_kept(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    bad = ScriptedChat(replies=[RuntimeError("no")])
    assert run(planned(tmp_path / "a", "direct"), bad, cache=cache).progress.failed == 6
    model = reader()
    run(planned(tmp_path / "b", "direct"), model, cache=cache)
    assert len(model.seen) == 6


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
