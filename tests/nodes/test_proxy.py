"""The proxy's pure parts: settings, prompts that are scored, scorers that models bring."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from langchain_core.messages import HumanMessage, SystemMessage
from tests.scripted import ScriptedChat

from ragweave.errors import UsageError
from ragweave.nodes.judge import (
    NecessityOptions,
    judge_prompt,
    scored_text,
    scorer_of,
    to_draft,
    to_judge,
    to_rewrite,
)
from ragweave.nodes.proxy import PROXY_PROMPTS, settings


def test_settings_left_out_are_not_sent() -> None:
    assert settings(NecessityOptions(proxy_top_p=None)) == {"temperature": 0.01, "max_tokens": 512}


def test_released_text_has_llama_2_marks() -> None:
    options = NecessityOptions(proxy_profile="released")
    prompt = judge_prompt("Who?", "Ada.", options, PROXY_PROMPTS)
    text = scored_text(prompt.messages([]), "released")
    assert text == (
        "[INST] <<SYS>>\nYou are a helpful assistant. Your task is to parse user input into "
        "structured formats according to the coarse answer. Current datatime is 2023-12-20 9:47:28 "
        "<</SYS>>\n Course answer: ((Ada.))\nQuestion: ((Who?)) [/INST]"
    )


def test_plain_text_of_other_profiles() -> None:
    assert scored_text([SystemMessage("Judge."), HumanMessage("Who?")], "instruct") == (
        "Judge.\n\nWho?\n\n"
    )


class Scoring(ScriptedChat):
    def score(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [0.0 for _ in pairs]


def test_a_model_may_bring_its_scorer() -> None:
    model = Scoring()
    assert scorer_of(model) is model
    assert scorer_of(model.bind(temperature=0.0)) is model
    assert scorer_of(ScriptedChat()) is None


def test_routes() -> None:
    state = {"passages": [], "heuristic_answer": "Ada", "known": None, "route": ""}
    both = NecessityOptions()
    assert to_draft(state, both) == "draft"
    assert to_draft({**state, "passages": ["p"]}, both) == "passages given"
    assert to_draft(state, NecessityOptions(question_judge=False, rewrite=False)) == "no proxy"
    assert to_judge(state, both) == "judge"
    assert to_judge(state, NecessityOptions(question_judge=False)) == "rewrite"
    assert to_judge({**state, "heuristic_answer": ""}, both) == "no draft"
    refused = {**state, "heuristic_answer": "I don't know.", "known": False}
    assert to_judge(refused, both) == "rewrite"
    assert to_judge(refused, NecessityOptions(rewrite=False)) == "no draft"
    assert to_rewrite({**state, "known": False}, both) == "not known"
    assert to_rewrite(state, NecessityOptions(rewrite=False)) == "not rewritten"


@pytest.mark.parametrize("value", [-0.1, 2.1])
def test_temperature_out_of_range(value: float) -> None:
    with pytest.raises(UsageError, match="proxy_temperature"):
        NecessityOptions(proxy_temperature=value)
