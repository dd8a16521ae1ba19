"""Judged metrics in a run: scored, counted apart, kept, shown; and what is refused."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.towns import planned, reader, records
from tests.scripted import ScriptedChat, Seen

from ragweave.errors import UsageError
from ragweave.evaluation.report import read_runs, tables_of
from ragweave.evaluation.runs import RunConfig, RunDirectory, evaluate

JUDGED = ["em", "faithfulness", "answer_relevance", "context_relevance", "correctness"]
PRICES = {"answer": (1.0, 1.0), "evaluator": (10.0, 10.0)}


def verdict(seen: Seen) -> str:
    """Say what a judge says, in the form asked for."""
    for mark, reply in (
        ("Grade, one of", "Correct"),
        ("Rating, the number", "5"),
        ("Write what the answer states", "- The bridge opened then."),
        ("the ids of the sentences", "0"),
    ):
        if mark in seen.text:
            return reply
    return "1: Yes"


def judge(replies: Any = verdict) -> ScriptedChat:
    return ScriptedChat(replies=replies, usage=(20, 3))


def directory(folder: Path, methods: str = "concat", **settings: Any) -> RunDirectory:
    settings = {"metrics": JUDGED, "judge_model": "scripted", "prices": PRICES, **settings}
    return planned(folder, methods, count=3, corpus="given", **settings)


def run(made: RunDirectory, by: ScriptedChat, model: Any = None, **config: Any) -> Any:
    models = {"answer": model or reader(), "evaluator": by}
    return asyncio.run(evaluate(made, RunConfig(**config), models=models))


def test_the_judge_scores_and_its_calls_are_none_of_the_methods(tmp_path: Path) -> None:
    made, by = directory(tmp_path), judge()
    result = run(made, by)
    assert len(by.seen) == 3 * 5
    for record in records(made):
        assert record["scores"] == dict.fromkeys(JUDGED, 1.0) | {"context_relevance": 0.5}
        assert record["spent"]["paid"].keys() == {"answer"}
        assert record["cost"] == pytest.approx(12 / 1e6)
        assert record["judge"]["spent"]["paid"]["evaluator"]["calls"] == 5
        assert record["judge"]["cost"] == pytest.approx(5 * 230 / 1e6)
        assert record["judgements"]["faithfulness"]["supported"] == [True]
        assert record["usage"]["calls"] == 1
    assert result.progress.spent.paid_calls == 3 * 6
    assert result.progress.cost == pytest.approx(3 * (12 + 5 * 230) / 1e6)


def test_what_cannot_be_read_is_counted_and_never_a_zero(tmp_path: Path) -> None:
    def vague(seen: Seen) -> str:
        town_0 = "Varn" in str(seen.messages[-1].content)
        return "I would rather not." if "Grade" in seen.text and town_0 else verdict(seen)

    made = directory(tmp_path)
    run(made, judge(vague))
    first, *others = records(made)
    assert "correctness" not in first["scores"]
    assert first["judgements"]["correctness"] == {
        "value": None,
        "unreadable": "I would rather not.",
    }
    assert all(one["scores"]["correctness"] == 1.0 for one in others)
    tables = {table.title: table for table in tables_of(read_runs([made.path])[0])}
    row = dict(zip(tables["Judge"].head, tables["Judge"].rows[0], strict=True))
    assert row["Correctness: judged, unreadable"] == "3, 1"
    assert row["Faithfulness: judged, unreadable"] == "3, 0"
    assert row["calls"] == "15"
    assert row["tokens in + out"] == "300 + 45"


def test_judged_metrics_are_compared_question_by_question(tmp_path: Path) -> None:
    made = directory(tmp_path, "concat,post_fusion")
    run(made, judge())
    titles = [table.title for table in tables_of(read_runs([made.path])[0])]
    assert "Differences in Faithfulness" in titles
    assert "Differences in Correctness" in titles


def test_a_run_that_the_judge_stopped_pays_for_nothing_twice(tmp_path: Path) -> None:
    def down(seen: Seen) -> str | Exception:
        return ValueError("the judge is down") if "Grade" in seen.text else verdict(seen)

    made, model, by = directory(tmp_path), reader(), judge(down)
    assert run(made, by, model).progress.failed == 3
    asked, model_calls = len(by.seen), len(model.seen)
    again = judge()
    assert run(made, again, model, retry_failed=True).progress.answered == 3
    assert len(model.seen) == model_calls
    assert ["Grade, one of" in one.text for one in again.seen] == [True] * 3
    assert asked == 3 * 5
    for record in records(made)[-3:]:
        assert record["judge"]["spent"]["paid"]["evaluator"]["calls"] == 5


def test_the_cache_answers_for_the_judge(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    cache = tmp_path / "replies.sqlite"
    run(directory(tmp_path / "a"), judge(), cache=cache)
    made, by = directory(tmp_path / "b"), judge()
    run(made, by, cache=cache)
    assert by.seen == []
    assert records(made)[0]["judge"]["spent"]["cached"]["evaluator"]["calls"] == 5


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"judge_model": ""}, "'faithfulness' is judged by a model: name one with --judge-model"),
        ({"metrics": ["em"]}, "none of these metrics is judged by a model; add some of faithful"),
        ({"judge_model": "extractive"}, "extractive: is no language model"),
        ({"judge_model": "openai:x?api_key=sk-1"}, "holds a key or password"),
    ],
)
def test_a_judge_that_cannot_be_is_refused(
    tmp_path: Path, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        directory(tmp_path, **settings)


def test_without_a_judge_all_of_ours_leaves_the_judged_out(tmp_path: Path) -> None:
    made = directory(tmp_path, metrics=[], judge_model="")
    by = judge()
    run(made, by)
    assert by.seen == []
    assert not {*JUDGED[1:]} & records(made)[0]["scores"].keys()
