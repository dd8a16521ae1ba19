"""Baselines under the papers' settings: examples in the prompt, one wording of answers for all."""

from __future__ import annotations

import pytest
from tests.scripted import ListRetriever, ScriptedChat, documents

from ragweave import build_graph
from ragweave.errors import UsageError

FOUND = documents("Ada Brenner built the light.")


@pytest.mark.parametrize("shots", [0, 1, 3])
@pytest.mark.parametrize(
    ("method", "options", "ends"),
    [
        ("direct", {"retrieve": True}, "Answer:"),
        ("direct", {}, "Answer:"),
        ("cot", {"retrieve": True}, "step by step."),
        ("cot", {}, "step by step."),
        ("iter_retgen", {"rounds": 1}, "step by step."),
    ],
)
def test_baselines_show_as_many_examples_as_asked(
    method: str, options: dict[str, object], ends: str, shots: int
) -> None:
    model = ScriptedChat(replies=["So the answer is Ada."])
    retriever = ListRetriever(documents=FOUND)
    graph = build_graph(method, model=model, retriever=retriever, shots=shots, **options)
    out = graph.invoke({"question": "Who built the light?"})
    prompt = model.seen[0].text
    assert prompt.count("Question:") == shots + 1
    assert ("Unknown" in prompt) is (shots == 0)
    assert prompt.endswith(ends) is (shots > 0)
    assert ("Ada Brenner built the light." in prompt) is (options != {})
    assert out["status"] == "answered"


def test_direct_examples_have_answers_and_no_reasoning() -> None:
    model = ScriptedChat(replies=["Ada"])
    build_graph("direct", model=model, shots=1).invoke({"question": "Who?"})
    assert "Answer: " in model.seen[0].text
    assert "step by step" not in model.seen[0].text


def test_more_examples_than_there_are_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="shots must be between 0 and 3"):
        build_graph("cot", shots=4)


@pytest.mark.parametrize("method", ["direct", "concat", "slimplm"])
def test_one_wording_of_short_answers_for_all_methods(method: str) -> None:
    for wording, part, answer in (
        ("many", "as many possible answers", "Ada Brenner or Ada Berger. Both are named."),
        ("phrase", "in as few words as it takes", "Ada"),
    ):
        model = ScriptedChat(replies=[answer])
        given = {"question": "Who?", "passages": ["Ada built it."]}
        out = build_graph(method, model=model, wording=wording).invoke(given)
        asked = " ".join(str(message.text) for message in model.seen[-1].messages)
        assert part in asked
        assert out["answer"] == answer
