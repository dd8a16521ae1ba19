"""The baselines with examples: `direct`, `cot`, and the examples of the papers' tables."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing import MethodTests, RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"
REASONED = "It was built by her. So the answer is Ada Brenner."


class TestCot(MethodTests):
    method = "cot"
    replies = [REASONED]


class TestCotWithPassages(MethodTests):
    method = "cot"
    replies = [REASONED]
    options = {"retrieve": True, "shots": 2}


def prompt(method: str, kind: str = "short", **options: Any) -> str:
    """Return the last message of the first call."""
    model = ScriptedModel(script=[REASONED])
    graph = build_graph(method, model=model, retriever=RecordingRetriever(), **options)
    graph.invoke({"question": QUESTION, "answer_type": kind})
    return model.calls[0].last


@pytest.mark.parametrize("method", ["direct", "cot", "iter_retgen"])
@pytest.mark.parametrize("shots", [0, 3])
def test_as_many_examples_as_asked_and_no_clause_with_them(method: str, shots: int) -> None:
    text = prompt(method, shots=shots)
    assert text.count("Question:") == shots + 1
    assert ("Unknown" in text) is (shots == 0)


def test_examples_of_direct_give_answers_alone() -> None:
    text = prompt("direct", shots=1, retrieve=True, k=1)
    assert "from?\nAnswer: Portella\n\nKnowledge:\n<passage 1" in text
    assert text.endswith(f"Question: {QUESTION}\nAnswer:")


def test_examples_follow_the_kind_of_answer() -> None:
    assert "So the answer is No." in prompt("cot", "yes_no", shots=2)


def test_there_are_three_examples() -> None:
    with pytest.raises(UsageError, match="shots: Input should be less than or equal to 3"):
        build_graph("cot", shots=4)


def test_blendfilters_prompt_over_knowledge() -> None:
    text = prompt("cot", profile="blendfilter", retrieve=True, k=1)
    begin, *_, end = text.split("\n\n")
    assert begin == "Answer questions following the given format."
    assert (
        "Question:Were László Benedek and Leslie H. Martinson both film directors?\nLet's think step by step.\n"
        "László Benedek was a Hungarian-born film director and Leslie H. Martinson was an American film director.\n"
        "So the answer is yes.\n\nKnowledge:"
    ) in text
    assert end == (
        "Knowledge:Card 0 | The bridge at Alden was built by Ada Brenner in 1931. Its five arches are of grey granite.\n"
        f"Question:{QUESTION}\nLet's think step by step."
    )


@pytest.mark.parametrize(
    ("kind", "options", "shown"),
    [
        ("short", {}, "Question:Lucium was confimed to be an impure sample of yttrium by an English chemist who"),
        (
            "short",
            {"examples": "2wiki"},
            "Question:Who is Rhescuporis I (Odrysian)'s paternal grandfather?\nAnswer:Raizdos",
        ),
        ("yes_no", {}, "Question:Could Durian cause someone's stomach to feel unwell?\nAnswer:Yes"),
    ],
)
def test_whose_examples_blendfilters_tables_show(kind: str, options: dict[str, str], shown: str) -> None:
    text = prompt("direct", kind, profile="blendfilter", **options)
    assert shown in text
    assert "Knowledge:" not in text


def test_slimplms_examples_for_musique() -> None:
    text = prompt("cot", profile="slimplm", shots=3)
    assert text.endswith(
        "Signal Hill is a hill which overlooks the city of St. John's. St. John's is located on the eastern tip of the "
        f"Avalon Peninsula.\nSo the answer is eastern tip\n\nQuestion: {QUESTION}\nLet's think step by step."
    )
    assert prompt("cot", profile="slimplm") == f"Question: {QUESTION}\nLet's think step by step."


def test_the_prompt_without_context_of_liu_et_al() -> None:
    assert prompt("direct", profile="post_fusion").endswith("If don't know the answer, just say Unknown.")
