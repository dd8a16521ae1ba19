"""A run answers every question once, says what it cost, and goes on where it stopped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.towns import planned, prompts, reader, records, run
from tests.scripted import ScriptedChat, Seen

from ragweave.cli.eval import status_line
from ragweave.errors import UsageError
from ragweave.evaluation.runs import Progress, RunConfig, RunDirectory, claim_directory, evaluate
from ragweave.evaluation.runs.directory import hold
from ragweave.evaluation.runs.recorder import Recorder, RecordingError
from ragweave.nodes.judge import NecessityOptions


class RefusedError(Exception):
    """What a server answers to whoever may not ask it."""

    status_code = 401


METHODS = "direct,concat[k=1],concat_pf[k=2]"


def test_every_question_is_answered_by_every_system_and_scored(tmp_path: Path) -> None:
    directory = planned(tmp_path, METHODS)
    result = run(directory, reader(), concurrency=4)
    assert result.complete
    found = records(directory)
    assert [(one["at"], one["system"]) for one in found] == [
        (index, label)
        for index in range(6)
        for label in ("concat[k=1]", "concat_pf[k=2]", "direct")
    ]
    concat = found[0]
    assert (concat["answer"], concat["scores"]["em"], concat["scores"]["recall"]) == (
        "1900",
        1.0,
        1.0,
    )
    assert concat["usage"]["calls"] == 1
    assert concat["spent"]["paid"] == {
        "answer": {"calls": 1, "input_tokens": 10, "output_tokens": 2}
    }
    assert found[2]["scores"]["unknown"] == 1.0
    assert result.progress.running["concat[k=1]"] == ("em", 1.0)


def test_a_finished_run_asks_nothing_more(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    run(directory, reader())
    again = reader()
    assert run(directory, again).complete
    assert again.seen == []
    assert len(records(directory)) == 6


@pytest.mark.parametrize("stop_after", [1, 2, 4, 5, 7, 8])
def test_a_stopped_question_goes_on_and_pays_for_no_reply_again(
    stop_after: int, tmp_path: Path
) -> None:
    """BlendFilter makes several calls in one node, where checkpoints alone would not do."""
    whole = planned(tmp_path / "whole", "blendfilter[k=2]", count=1)
    model = reader()
    run(whole, model, concurrency=1)
    once = prompts(model.seen)

    cut = planned(tmp_path / "cut", "blendfilter[k=2]", count=1)
    first, second = reader(), reader()

    async def stop() -> None:
        work = asyncio.ensure_future(evaluate(cut, RunConfig(), models={"answer": first}))
        while len(first.seen) < stop_after and not work.done():
            await asyncio.sleep(0)
        assert not work.done()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(stop())
    assert not records(cut)
    run(cut, second)
    asked = prompts([*first.seen, *second.seen])
    extra = (asked - once).total()
    assert extra <= 3  # what was in flight: three branches at most run side by side
    assert not once - asked
    assert records(cut) == records(whole)


def test_a_slow_question_holds_no_other_up(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    others = asyncio.Event()
    told: list[str] = []

    class Waits(ScriptedChat):
        async def _agenerate(self, messages, *args, **kwargs):  # type: ignore[no-untyped-def]
            if "Varn" in str(messages[-1].content):
                await asyncio.wait_for(others.wait(), timeout=20)
            return await super()._agenerate(messages, *args, **kwargs)

    def tell(_progress: object, record: dict[str, str] | None) -> None:
        if record is not None:
            told.append(record["id"])
            if len(told) == 5:
                others.set()

    model = Waits(replies=["1900"])
    asyncio.run(
        evaluate(directory, RunConfig(concurrency=2), models={"answer": model}, on_progress=tell)
    )
    assert told[-1] == "t0"
    assert len(told) == 6


def test_a_fault_is_recorded_with_its_reason_and_retried_only_when_asked(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat[k=1]")

    def breaks(seen: Seen) -> str | Exception:
        bad = "Lom" in seen.text and not seen.passages
        return RuntimeError("the reply made\nno sense") if bad else "1900"

    result = run(directory, ScriptedChat(replies=breaks))
    assert (result.complete, result.progress.answered, result.progress.failed) == (True, 11, 1)
    (bad,) = [one for one in records(directory) if one["error"]]
    assert bad["error"] == {
        "kind": "RuntimeError",
        "status": None,
        "text": "the reply made no sense",
    }
    idle = reader()
    assert run(directory, idle).progress.failed == 1
    assert idle.seen == []

    healthy = ScriptedChat(replies=["1901"])
    result = run(directory, healthy, retry_failed=True)
    assert (result.progress.answered, result.progress.failed, len(healthy.seen)) == (12, 0, 1)
    found = records(directory)
    assert len(found) == 12
    assert not any(one["error"] for one in found)


def test_a_retry_pays_only_for_the_call_that_failed(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat_pf[k=2]", count=1)

    def breaks(seen: Seen) -> str | Exception:
        if len(seen.passages) == 2:
            return "Unknown"
        return ValueError("broken") if "port" in seen.passages[0] else "1900"

    first = ScriptedChat(replies=breaks)
    assert run(directory, first).progress.failed == 1
    second = reader()
    result = run(directory, second, retry_failed=True)
    assert len(second.seen) == 1
    assert result.progress.spent.paid_calls == 3  # two of the first attempt, one of the second
    (record,) = records(directory)
    assert record["answer"] == "1900"
    assert record["usage"]["calls"] == 3


def test_a_half_written_last_line_is_no_result(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    run(directory, reader())
    whole = records(directory)
    text = directory.results.read_bytes()
    directory.results.write_bytes(text[:-20])
    model = reader()
    run(directory, model)
    assert len(model.seen) == 1
    assert records(directory) == whole
    assert directory.results.read_bytes().count(b"\n") == 6


def test_a_token_budget_stops_between_questions_and_a_larger_one_goes_on(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    result = run(directory, reader(), concurrency=1, budget_tokens=30)
    assert not result.complete
    assert result.progress.answered == 3  # 12 tokens each: the third reaches 30
    assert run(directory, reader(), concurrency=1, budget_tokens=1000).complete
    assert len(records(directory)) == 6


def test_a_retried_question_spends_the_budget_once(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat_pf[k=2]", count=3)

    def breaks(seen: Seen) -> str | Exception:
        return ValueError("broken") if len(seen.passages) < 2 else "Unknown"

    first = ScriptedChat(replies=breaks, usage=(10, 2))
    assert run(directory, first, concurrency=1).progress.failed == 3
    # 12 tokens each so far; three calls a question with what is retried: 108 in all
    result = run(directory, reader(), concurrency=1, retry_failed=True, budget_tokens=101)
    assert result.complete
    assert result.progress.spent.paid_tokens == 108


def test_half_a_character_in_a_reply_is_kept_as_a_question_mark(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat_pf[k=2]", count=2)
    result = run(directory, ScriptedChat(replies=["two \ud83d"]))
    assert (result.complete, result.progress.failed) == (True, 0)
    assert records(directory)[-1]["answer"] == "two ?"


def test_whatever_stops_the_recorder_reaches_those_who_wait(tmp_path: Path) -> None:
    async def write() -> None:
        with Recorder(tmp_path / "results.jsonl", tmp_path / "state.sqlite") as recorder:
            await recorder.write("t", "INSERT INTO replies VALUES (?)", [("\ud83d",)] * 2)

    with pytest.raises((UnicodeError, RecordingError)):
        asyncio.run(asyncio.wait_for(write(), 60))


def test_a_dollar_budget_needs_prices(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    with pytest.raises(UsageError, match="needs prices"):
        run(directory, reader(), budget_usd=1.0)
    priced = planned(tmp_path / "priced", "direct", prices={"*": (1000.0, 1000.0)})
    result = run(priced, reader(), concurrency=1, budget_usd=0.02)
    assert (result.complete, result.progress.answered) == (False, 2)
    assert result.progress.cost == pytest.approx(0.024)


@pytest.mark.parametrize("budget", [{"budget_tokens": 70}, {"budget_usd": 0.05}])
def test_of_a_spent_budget_the_next_run_begins_nothing(
    budget: dict[str, Any], tmp_path: Path
) -> None:
    first, second = (
        planned(tmp_path / name, "direct", prices={"*": (1000.0, 1000.0)}) for name in "ab"
    )
    config, model = RunConfig(**budget).after(run(first, reader()).progress), reader()
    assert not asyncio.run(evaluate(second, config, models={"answer": model})).complete
    assert not model.seen
    more = RunConfig(budget_tokens=100, budget_usd=1.0).after(run(first, reader()).progress)
    assert (more.budget_tokens, more.budget_usd) == (28, pytest.approx(0.928))


def test_a_dollar_budget_needs_a_price_for_whoever_is_paid(tmp_path: Path) -> None:
    prices = {"answer": (1000.0, 1000.0)}
    models = {"answer": "scripted", "proxy": "scripted"}
    known = planned(tmp_path / "known", "direct", prices=prices, models=models)
    with pytest.raises(UsageError, match="proxy has none"):
        run(known, reader(), budget_usd=1.0)
    models = {"answer": "scripted", "rewriter": "small", "filter_model": "small"}
    rewrites = planned(tmp_path / "rewrites", "direct", prices=prices, models=models)
    with pytest.raises(UsageError, match="each role: rewrite, filter has none"):
        run(rewrites, reader(), budget_usd=1.0)
    every = dict.fromkeys(("answer", "rewrite", "filter"), (1000.0, 1000.0))
    priced = planned(tmp_path / "every", "direct", prices=every, models=models)
    played = dict.fromkeys(models, reader())
    assert asyncio.run(evaluate(priced, RunConfig(budget_usd=9.0), models=played)).complete
    found = planned(tmp_path / "found", "slimplm,filco,self_eval", prices=prices)
    with pytest.raises(UsageError, match="each role: proxy, judge, rewrite has none"):
        run(found, reader(), budget_usd=1.0)
    assert not records(found)
    silenced = "crag[refine=false,second_search=false],sure[validity=false,ranking=false]"
    quiet = planned(tmp_path / "quiet", silenced, prices=prices)
    with pytest.raises(UsageError, match="each role: judge has none"):
        run(quiet, reader(), budget_usd=1.0)
    given = planned(tmp_path / "given", "slimplm", prices=prices, passages="given")
    assert run(given, reader(), budget_usd=9.0).progress.failed == 0
    filters = planned(tmp_path / "filters", "direct,filco[filter=llm]", prices=prices)
    with pytest.raises(UsageError, match="each role: filter has none"):
        run(filters, reader(), budget_usd=1.0)


def test_a_dollar_budget_ends_a_run_whose_method_does_not_say_whom_it_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = planned(tmp_path, "slimplm", prices={"answer": (1000.0, 1000.0)})
    monkeypatch.setattr(NecessityOptions, "small_roles", ())
    with pytest.raises(UsageError, match="no price for"):
        run(directory, reader(), concurrency=1, budget_usd=1.0)


def test_shards_part_the_questions(tmp_path: Path) -> None:
    seen = []
    for part in (1, 2, 3):
        directory = planned(tmp_path / str(part), "direct", count=7, shard=(part, 3))
        assert run(directory, reader()).progress.planned == len(records(directory))
        seen += [one["at"] for one in records(directory)]
    assert sorted(seen) == list(range(7))


def test_limit_and_sample(tmp_path: Path) -> None:
    first = planned(tmp_path / "limit", "direct", limit=2)
    drawn = planned(tmp_path / "sample", "direct", sample=3, seed=4)
    run(first, reader())
    run(drawn, reader())
    assert [one["at"] for one in records(first)] == [0, 1]
    assert len({one["at"] for one in records(drawn)}) == 3
    with pytest.raises(UsageError, match="give --limit"):
        planned(tmp_path / "both", "direct", limit=2, sample=2)


def test_a_directory_takes_only_its_own_run(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    same = claim_directory(directory.path, directory.settings)
    assert same.settings == directory.settings
    run(directory, reader())
    with pytest.raises(UsageError, match="other settings: seed was 0, now 1"):
        planned(tmp_path, "direct", seed=1)
    with pytest.raises(UsageError, match="other settings: dataset_hash was"):
        planned(tmp_path, "direct", count=7)


def test_settings_may_change_until_something_is_recorded(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    with pytest.raises(RefusedError):
        run(directory, ScriptedChat(replies=[RefusedError("no such model")]))
    again = planned(tmp_path, "concat", seed=1)
    assert (again.settings.seed, again.settings.systems[0].label) == (1, "concat")
    assert run(again, reader()).complete


def test_foreign_directories_are_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("mine", "utf-8")
    with pytest.raises(UsageError, match="holds other files"):
        planned(tmp_path, "direct")
    with pytest.raises(UsageError, match="is not a run"):
        run(RunDirectory(tmp_path), reader())


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("a file, not a folder", "utf-8")
    with pytest.raises(UsageError, match="cannot be written"):
        planned(tmp_path, "direct")


def test_another_ragweave_made_it(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    run(directory, reader())
    file = directory.path / "run.json"
    values = json.loads(file.read_text("utf-8"))
    values["versions"]["ragweave"] = "9.9"
    file.write_text(json.dumps(values), "utf-8")
    with pytest.raises(UsageError, match=r"was made by ragweave 9\.9"):
        planned(tmp_path, "direct")


def test_changed_data_are_refused(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct")
    with (tmp_path / "towns.jsonl").open("a", encoding="utf-8") as stream:
        stream.write('{"question": "q", "answers": ["x"]}\n')
    with pytest.raises(UsageError, match="has changed since the run began"):
        run(directory, reader())


def test_two_processes_cannot_work_on_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragweave.evaluation.runs.directory.PATIENCE", 0.1)
    directory = planned(tmp_path, "direct")
    with hold(directory), pytest.raises(UsageError, match="another process is working"):
        run(directory, reader())


def test_a_setting_that_no_question_can_be_asked_with_ends_the_run(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat", corpus="none")
    with pytest.raises(UsageError, match="nothing to retrieve from"):
        run(directory, reader())
    assert not records(directory)


def test_where_a_run_stands_is_told_with_each_result(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,concat[k=1]", count=2)
    lines: list[str] = []

    def tell(progress: Progress, _record: object) -> None:
        lines.append(status_line(progress))

    asyncio.run(
        evaluate(directory, RunConfig(concurrency=1), models={"answer": reader()}, on_progress=tell)
    )
    assert lines[0] == "0 tokens"
    assert lines[-1] == "0:00 left · 48 tokens · EM: direct 0.0 concat[k=1] 100.0"


def test_an_answer_type_set_on_a_method_holds_against_the_data_set(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct,direct[answer_type=long]", count=1)
    model = reader()
    run(directory, model)
    kinds = sorted(str(one.task["answer_type"]) for one in model.seen if one.task)
    assert kinds == ["long", "short"]


def test_a_trained_judge_stops_no_run_that_has_self_eval_in_it(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="trained judges need the train extra")
    from tests.tiny_parts import make_scorer

    folder = tmp_path / "judge"
    make_scorer(folder, "judge", [("Who built it?", "Ada.", True), ("Who?", "Nobody.", False)])
    models = {"answer": "scripted", "judge": str(folder)}
    directory = planned(tmp_path, "self_eval[k=1],slimplm[k=1]", count=1, models=models)

    def replies(seen: Seen) -> str:
        return "Yes" if seen.task and seen.task["task"] == "need" else "1900"

    ended = run(directory, ScriptedChat(replies=replies))
    assert (ended.complete, ended.progress.failed) == (True, 0)
    with pytest.raises(UsageError, match="leave out decided_by=judge"):
        asked = planned(tmp_path / "b", "self_eval[decided_by=judge]", count=1, models=models)
        run(asked, ScriptedChat())
