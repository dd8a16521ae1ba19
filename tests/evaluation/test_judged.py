"""Metrics by a judge model: held to a form, or read from its text; and ALCE's citation metrics."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.conftest import Questions
from tests.openai_server import HttpFault, OpenAIServer

from ragweave.datasets import Question
from ragweave.evaluation import EvalSettings, citation_metrics, evaluate
from ragweave.evaluation.folder import read_results
from ragweave.evaluation.metrics.judged import citation_precision, citation_recall
from ragweave.testing import ScriptedModel

JUDGED = ("faithfulness", "answer_relevance", "context_relevance", "correctness")


def judge(forms: bool) -> Callable[[dict[str, Any]], Any]:
    """Return a script that answers every judge's prompt, as JSON or in words."""
    replies = (
        (
            "Write what the answer states",
            '{"statements": ["It opened in 1931.", "It is red."]}',
            "It opened in 1931.\nIt is red.",
        ),
        ("Say of each statement", '{"supported": ["Yes", "No"]}', "1. Yes\n2. No"),
        ("Rate how well", '{"rating": "4"}', "4"),
        ("Which of the sentences", '{"ids": [1]}', "sentence 1"),
        ("Grade the answer", '{"grade": "Correct"}', "Correct."),
    )

    def script(body: dict[str, Any]) -> Any:
        prompt = json.dumps(body["messages"])
        if not any(lead in prompt for lead, *_ in replies):
            return "1931"
        if body.get("response_format") and not forms:
            return HttpFault(400, message="response_format is not supported")
        return next(form if forms else text for lead, form, text in replies if lead in prompt)

    return script


@pytest.mark.loopback
@pytest.mark.parametrize("forms", [True, False])
def test_judged_metrics(server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path, forms: bool) -> None:
    server.script = judge(forms)
    models = {"generator": spec, "evaluator": f"{spec}&n=1"}
    run = EvalSettings(data=questions(2), models=models, metrics=("em", *JUDGED))
    assert evaluate(run, tmp_path / "run", concurrency=1, quiet=True).exit_code == 0
    [first, _] = read_results(tmp_path / "run")
    assert first["scores"] == {
        "em": 1.0,
        "faithfulness": 0.5,
        "answer_relevance": 0.75,
        "context_relevance": pytest.approx(1 / 3, abs=1e-6),
        "correctness": 1.0,
    }


@pytest.mark.loopback
def test_a_verdict_that_cannot_be_read_is_no_score(
    server: OpenAIServer, spec: str, questions: Questions, tmp_path: Path
) -> None:
    server.script = lambda _: "Well, who knows?"
    run = EvalSettings(
        data=questions(1), models={"generator": spec, "evaluator": f"{spec}&n=1"}, metrics=("correctness",)
    )
    evaluate(run, tmp_path / "run", quiet=True)
    [record] = read_results(tmp_path / "run")
    assert record["scores"] == {}


def test_one_reply_cut_off_leaves_the_judge_its_forms(questions: Questions, tmp_path: Path) -> None:
    replies = ['{"grade": "Corr', "Correct", '{"grade": "Correct"}']
    judge = ScriptedModel(script=replies, profile={"structured_output": True})
    run = EvalSettings(data=questions(2), metrics=("correctness",))
    evaluate(run, tmp_path / "run", concurrency=1, given={"evaluator": judge}, quiet=True)
    assert [call.form for call in judge.calls] == ["Grade", "", "Grade"]
    assert [record["scores"] for record in read_results(tmp_path / "run")] == [{"correctness": 1.0}] * 2


async def entails(premise: str, statement: str) -> bool:
    return statement in premise


async def test_citations_by_alces_rules() -> None:
    statements = [("a", ["a b", "c"]), ("d", ["x"]), ("e", [])]
    assert await citation_recall(statements, entails) == pytest.approx(1 / 3)
    # "a b" supports its statement, "c" adds nothing, and "x" belongs to a statement that is not supported
    assert await citation_precision(statements, entails) == pytest.approx(1 / 3)
    assert await citation_precision([("e", [])], entails) == 0.0


async def test_citations_together_may_be_needed() -> None:
    async def both(premise: str, _said: str) -> bool:
        return "x" in premise and "y" in premise

    assert await citation_precision([("s", ["x", "y"])], both) == 1.0
    assert await citation_precision([("s", ["x", "y", "z"])], both) == pytest.approx(2 / 3)


def test_citations_of_a_run(questions: Questions, tmp_path: Path) -> None:
    run = EvalSettings(
        data=questions(2), systems=("concat[citations=true]", "concat"), metrics=("citation_recall", "attribution")
    )

    async def yes(premise: str, statement: str) -> bool:
        assert "1931" in premise
        return True

    evaluate(run, tmp_path / "run", own=citation_metrics(yes), given={"evaluator": "extractive"}, quiet=True)
    scores = {record["system"]: record["scores"] for record in read_results(tmp_path / "run")}
    assert scores["concat[citations=true]"] == {"citation_recall": 1.0, "attribution": 1.0}
    assert scores["concat"] == {}


def test_questions_have_names() -> None:
    assert Question(id="1", question="?", answers=("a", "b")).names == [("a", "b")]
    assert Question(id="1", question="?", answers=("a",), kind="long").names == []
