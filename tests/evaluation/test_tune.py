"""From questions to a choice, with a scripted model and a knowledge base without embeddings."""

import json
import os
import re
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from langchain_core.documents import Document

from ragweave import build_graph
from ragweave.datasets import Question
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings, Limits
from ragweave.evaluation.folder import read_results
from ragweave.evaluation.layout import lost_cells, write_tuned
from ragweave.evaluation.race import Goal
from ragweave.evaluation.tune import Ended, Outcome, objective, recall, sentence, shortlist, tune
from ragweave.testing import ModelCall, ScriptedModel
from ragweave.tools.knowledge import KnowledgeBase

COUNT = 60
QUESTION = "Who was the builder of house {}?"


def reply(call: ModelCall) -> str:
    """Answer from one passage always, from several only every third question."""
    number = call.text.split("builder of house ")[-1].split("?")[0]
    return f"Builder{number}" if call.node == "post_fusion" or int(number) % 3 == 0 else "Unknown"


def write(path: Path, numbers: range) -> None:
    rows = [{"question": QUESTION.format(n), "answers": [f"Builder{n}"]} for n in numbers]
    path.write_text("\n".join(map(json.dumps, rows)))


@pytest.fixture
def settings(tmp_path: Path) -> EvalSettings:
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as base:
        base.add([Document(f"The builder of house {n} was Builder{n}.") for n in range(2 * COUNT)])
    write(tmp_path / "q.jsonl", range(COUNT))
    return EvalSettings(
        data=f"jsonl:{tmp_path / 'q.jsonl'}", systems=("concat_pf[k=3]", "direct"), kb=str(tmp_path / "kb")
    )


def run(settings: EvalSettings, folder: Path, model: ScriptedModel, **more: Any) -> Outcome:
    usual = {"incumbent": "concat[k=3]", "target": "em", "quiet": True, "say": lambda _line: None}
    return tune(settings, folder, **{**usual, "given": {"generator": model}, **more})


def test_a_better_method_is_chosen_confirmed_and_built(settings: EvalSettings, tmp_path: Path) -> None:
    model, lines = ScriptedModel(script=reply), list[str]()
    outcome = run(settings, tmp_path / "run", model, say=lines.append)
    choice = yaml.safe_load(outcome.choice.read_text())
    assert (choice["method"], choice["options"]) == ("concat_pf", {"k": 3})
    confirmed = choice["decision"]["gain_confirmed"]
    assert confirmed["low"] > 0
    assert confirmed["questions"] == choice["data"]["kept_back"] == 40
    assert choice["decision"]["is_confirmed"]
    assert {*choice["versions"]} == {"ragweave", "langgraph", "langchain-core"}
    assert max(Counter(call.text for call in model.calls).values()) == 1
    assert "one time in two" in lines[0]
    assert any("to come" in line for line in lines)
    out = build_graph(str(outcome.choice), model=model).invoke({"question": QUESTION.format(7)})
    assert out["answer"] == "Builder7"


def test_an_interrupted_run_goes_on_and_pays_for_nothing_twice(settings: EvalSettings, tmp_path: Path) -> None:
    calls = []

    def interrupted(call: ModelCall) -> str:
        calls.append(call.text)
        if len(calls) in (25, 60):
            os.kill(os.getpid(), signal.SIGINT)
        return reply(call)

    through = run(settings, tmp_path / "through", ScriptedModel(script=reply))
    model = ScriptedModel(script=interrupted)
    for _ in range(2):
        with pytest.raises(Ended, match="interrupted"):
            run(settings, tmp_path / "run", model)
    outcome = run(settings, tmp_path / "run", model)
    assert max(Counter(calls).values()) == 1
    assert outcome.spent["calls"] == through.spent["calls"] == len(calls)
    assert outcome.choice.read_text() == through.choice.read_text()


def test_what_changed_in_the_knowledge_base_is_searched_and_asked_again(settings: EvalSettings, tmp_path: Path) -> None:
    model, lines = ScriptedModel(script=reply), list[str]()
    for _ in range(2):
        run(settings, tmp_path / "run", model, say=lines.append)
        with KnowledgeBase.open(settings.kb) as base:
            base.delete(source="added")
            base.add([Document(f"House {n} is of stone.") for n in range(COUNT)])
    assert [line for line in lines if line.startswith("auto: recall 100.0")] == [lines[1]]
    assert any("of stone" in str(record["passages"]) for record in read_results(tmp_path / "run"))


def test_the_incumbent_stays_if_nothing_is_better(settings: EvalSettings, tmp_path: Path) -> None:
    outcome = run(settings, tmp_path / "run", ScriptedModel(script=["Unknown"]))
    assert outcome.chosen.name == "concat[k=3]"
    assert outcome.verdict is None


def test_what_a_test_has_spent_serves_to_choose_from_then_on(settings: EvalSettings, tmp_path: Path) -> None:
    model = ScriptedModel(script=reply)
    run(settings, tmp_path / "run", model)
    first = json.loads((tmp_path / "run" / "tune.json").read_text())
    assert first["tested"][:2] == ["concat_pf[k=3]", "concat[k=3]"]
    again = run(settings, tmp_path / "run", model)
    assert again.verdict is not None
    run(replace(settings, limit=20), tmp_path / "run", model)
    assert json.loads((tmp_path / "run" / "tune.json").read_text()) == first
    write(tmp_path / "q.jsonl", range(COUNT + 30))
    outcome = run(settings, tmp_path / "run", model)
    second = json.loads((tmp_path / "run" / "tune.json").read_text())
    assert {*first["choose"], *first["reserved"]} == {*second["choose"]}
    assert len(second["reserved"]) == 30
    assert outcome.verdict is not None
    assert outcome.verdict.gain.n == 30
    assert max(Counter(call.text for call in model.calls).values()) == 1
    for other in ({"incumbent": "direct"}, {"goal": Goal(within=0.5)}):  # the questions kept back are spent
        assert run(settings, tmp_path / "run", model, **other).verdict is None


def test_a_budget_shortens_the_race_and_one_that_is_too_small_is_refused(
    settings: EvalSettings, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="--max-calls"):
        run(settings, tmp_path / "none", ScriptedModel(script=reply), limits=Limits(max_calls=60))
    model = ScriptedModel(script=reply)
    outcome = run(settings, tmp_path / "some", model, limits=Limits(max_calls=250))
    assert len(model.calls) <= 250
    assert outcome.chosen_by < 20
    assert outcome.verdict is not None


def test_the_cheapest_that_is_not_worse_is_chosen(settings: EvalSettings, tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", range(2 * COUNT))
    model = ScriptedModel(script=lambda call: f"Builder{call.text.split('builder of house ')[-1].split('?')[0]}")
    outcome = run(settings, tmp_path / "run", model, incumbent="post_fusion[k=3]", goal=Goal(within=0.05))
    assert outcome.chosen.name == "direct"
    assert outcome.verdict is not None
    assert outcome.verdict.cost < 1


def test_questions_without_right_answers_are_judged(settings: EvalSettings, tmp_path: Path) -> None:
    rows = [
        {"question": QUESTION.format(n), "answer": f"Builder{n}", "passages": [], "thumb": n % 2} for n in range(20)
    ]
    (tmp_path / "feedback.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = EvalSettings(data=str(tmp_path / "feedback.jsonl"), systems=("concat_pf[k=3]",), kb=settings.kb)
    with pytest.raises(UsageError, match="10 questions have no right answers: name a judge"):
        run(settings, tmp_path / "run", ScriptedModel(script=reply), target="")


def test_a_thumb_up_is_a_right_answer_and_a_judge_scores_the_other_questions(
    settings: EvalSettings, tmp_path: Path
) -> None:
    rows = [
        {"question": QUESTION.format(n), "answer": f"Builder{n}", "passages": [], "thumb": "down" if n % 2 else "up"}
        for n in range(COUNT)
    ]
    (tmp_path / "feedback.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = replace(settings, data=str(tmp_path / "feedback.jsonl"), systems=("concat_pf[k=3]",))

    def verdict(call: ModelCall) -> str:
        if "Statements:" in call.text:
            return "Yes" if "Builder" in call.text.split("Statements:")[1] else "No"
        return "5" if "Rate how well" in call.text else call.text.split("Answer: ")[-1]

    judge = ScriptedModel(script=verdict)
    model = ScriptedModel(script=reply)
    outcome = run(settings, tmp_path / "run", model, given={"generator": model, "evaluator": judge})
    assert outcome.chosen.name == "concat_pf[k=3]"
    judged = {int(n) for call in judge.calls for n in re.findall(r"Question: .* house (\d+)", call.text)}
    assert judged == {*range(1, COUNT, 2)}
    scores = {
        (record["system"], record["question"]): record["scores"]["em"] for record in read_results(tmp_path / "run")
    }
    assert {scores["concat_pf[k=3]", row["question"]] for row in rows} == {1.0}
    assert {scores["concat[k=3]", row["question"]] for row in rows} == {0.0, 1.0}
    assert "Lost answers" in write_tuned(outcome).read_text()


def test_questions_are_chosen_by_without_a_folder_to_read(tmp_path: Path) -> None:
    write(tmp_path / "q.jsonl", range(20))
    settings = EvalSettings(data=f"jsonl:{tmp_path / 'q.jsonl'}", systems=("cot",))
    outcome = run(settings, tmp_path / "run", ScriptedModel(script=["Unknown"]), incumbent="direct")
    assert lost_cells(outcome.lost)[1] == []
    assert "direct stays" in sentence(outcome)
    assert "<polyline" in write_tuned(outcome).read_text()


def test_unknown_may_be_right_which_takes_no_judge() -> None:
    assert objective("em", [Question(id="1", question="?")], {}).judge is None
    with pytest.raises(UsageError, match="1 questions have no right answers: name a judge"):
        objective("em", [Question(id="1", question="?", is_known=False)], {})


def test_search_is_compared_by_short_answers_alone() -> None:
    docs = [Document("The bridge was built by Ada Brenner."), Document("It opened in 1931.")]
    long = ("Ada Brenner built the bridge, which opened in 1931, as all know.",)
    question = Question(
        id="1", question="?", kind="parts", answers=long, parts=(("A. Brenner", "Ada Brenner"), ("1931",))
    )
    assert [recall(question, docs, k) for k in (1, 2)] == [0.5, 1.0]


def test_few_methods_race_and_they_fit_the_questions() -> None:
    one = [Question(id="1", question="When was the dam built?")]
    two = [Question(id="1", question="Who designed the bridge that crosses the river where Ada Brenner was born?")]
    long = [Question(id="1", question="Why?", kind="long")]
    names = [shortlist(questions) for questions in (one, two, long)]
    assert len({*names}) == 3
    assert all(len(methods) <= 4 and methods[0] == "concat_pf" for methods in names)
