"""gepa rewrites a prompt of a graph, with scripted models."""

import json
from pathlib import Path

import pytest
import yaml
from langchain_core.documents import Document
from tests.extras import needs

from ragweave import build_graph
from ragweave.datasets import open_dataset
from ragweave.errors import UsageError
from ragweave.evaluation import EvalSettings
from ragweave.evaluation.prompts import reflector_of, rewrite
from ragweave.evaluation.tune import tune
from ragweave.testing import ModelCall, ScriptedModel
from ragweave.tools.knowledge import KnowledgeBase

needs("gepa")

BETTER = "Answer with the name alone, {nothing} else."


def answer(call: ModelCall) -> str:
    """Answer rightly if the prompt asks for the name alone."""
    name = call.text.split("builder of house ")[1].split()[0].strip("?")
    return f"Builder{name}" if "the name alone" in call.text else "It is not quite clear who."


def test_a_better_prompt_is_found_confirmed_and_kept(tmp_path: Path) -> None:
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as base:
        base.add([Document(f"The builder of house {n} was Builder{n}.") for n in range(30)])
    rows = [{"question": f"Who was the builder of house {n}?", "answers": [f"Builder{n}"]} for n in range(30)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    reflector = ScriptedModel(script=[f"Here it is:\n```\n{BETTER}\n```"])
    settings = EvalSettings(data=f"jsonl:{tmp_path / 'q.jsonl'}", systems=("concat",), kb=str(tmp_path / "kb"))
    models = {"generator": ScriptedModel(script=answer), "evaluator": reflector}
    outcome = tune(
        settings,
        tmp_path / "run",
        incumbent="concat",
        target="em",
        rewrite=rewrite,
        given=models,
        quiet=True,
        say=lambda _line: None,
    )
    assert outcome.chosen.wording.startswith("gepa-")
    assert outcome.verdict is not None
    assert outcome.verdict.gain.n == 20
    graph = build_graph(str(outcome.choice), model=models["generator"])
    assert graph.invoke({"question": "Who was the builder of house 7?"})["answer"] == "Builder7"
    assert "{{nothing}}" in yaml.safe_load(outcome.choice.read_text())["prompts"]["concat"][0][1]
    told = reflector.calls[0].text
    assert "The right answer is Builder" in told
    assert "The model read the passage, and answered otherwise." in told


def test_a_confirmed_choice_is_chosen_again(tmp_path: Path) -> None:
    """On the questions kept back alone, the new prompt does worse than by those that it was chosen by."""
    with KnowledgeBase.create(tmp_path / "kb", settings={"embedding": None}) as base:
        base.add([Document(f"The builder of house {n} was Builder{n}.") for n in range(60)])
    rows = [{"question": f"Who was the builder of house {n}?", "answers": [f"Builder{n}"]} for n in range(60)]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = EvalSettings(data=f"jsonl:{tmp_path / 'q.jsonl'}", systems=("concat",), kb=str(tmp_path / "kb"))
    numbers = {question.hashes["question"]: at for at, question in enumerate(open_dataset(settings.data))}

    def often(call: ModelCall) -> str:
        house = int(call.text.split("Who was the builder of house ")[-1].split("?")[0])
        parts = json.loads((tmp_path / "run" / "tune.json").read_text())
        kept_back = [numbers[name] for name in parts["reserved"]]
        places = kept_back if house in kept_back else [numbers[name] for name in parts["choose"]]
        tenths = 8 if "The builder of house" in call.text else 2
        if "the name alone" in call.text:
            tenths = 6 if house in kept_back else 9
        return f"Builder{house}" if places.index(house) % 10 < tenths else "It is not quite clear who."

    models = {"generator": ScriptedModel(script=often), "evaluator": ScriptedModel(script=[f"```\n{BETTER}\n```"])}
    usual = {"incumbent": "direct", "target": "em", "rewrite": rewrite, "given": models, "quiet": True}
    first, second = (tune(settings, tmp_path / "run", **usual, say=lambda _line: None) for _ in range(2))
    assert first.chosen.wording.startswith("gepa-")
    assert second.chosen == first.chosen


def test_small_models_are_warned_of_and_extractive_does_not_write() -> None:
    assert "small" in reflector_of({"generator": "llamacpp:models/qwen2.5-coder-1.5b.gguf"})[1]
    for spec in ("openai:gpt-4o-mini", "openai:Qwen/Qwen2.5-72B-Instruct"):
        assert reflector_of({"generator": "extractive", "evaluator": spec}) == ("evaluator", "")
    with pytest.raises(UsageError, match="doesn't write"):
        reflector_of({"generator": "extractive"})
