"""SuRe: candidates, summaries, validity and ranking, and the released code's prompts."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave import build_graph
from ragweave.testing import CARDS, MethodTests, ModelCall, RecordingRetriever, ScriptedModel

ASK = {"question": "Who built the bridge at Alden?"}


def better(call: ModelCall) -> str:
    """Prefer the summary that names Ada Brenner."""
    return "Passage 1" if "Ada" in call.last.partition("Passage 2:")[0] else "Passage 2"


def script(**replies: Any) -> Any:
    def reply(call: ModelCall) -> str:
        table = {
            "propose": "(a) Karl Oster\n(b) Ada Brenner",
            "summarise": lambda call: f"It was {call.text.partition('Prediction: ')[2].splitlines()[0]}.",
            "verify": "True",
            "rank": better,
            **replies,
        }
        answer = table[call.node]
        return str(answer(call) if callable(answer) else answer)

    return reply


def run(options: dict[str, Any] | None = None, **replies: Any) -> tuple[dict[str, Any], list[ModelCall]]:
    model = ScriptedModel(script=script(**replies))
    out = build_graph("sure", model=model, retriever=RecordingRetriever(), **(options or {})).invoke(ASK)
    return out, model.calls


class TestSure(MethodTests):
    method = "sure"
    reply = staticmethod(script())  # type: ignore[assignment]


def test_the_candidate_with_the_better_summary_answers() -> None:
    out, calls = run()
    assert out["answer"] == "Ada Brenner"
    assert [sum(call.node == node for call in calls) for node in ("propose", "summarise", "verify", "rank")] == [
        1,
        2,
        2,
        2,
    ]


def test_validity_breaks_a_tie_of_preferences() -> None:
    replies = {"rank": "Passage 1", "verify": lambda call: str("Ada" in call.last)}
    assert run(**replies)[0]["answer"] == "Ada Brenner"
    assert run({"validity": False}, **replies)[0]["answer"] == "Karl Oster"


def test_of_equals_the_first_answers() -> None:
    assert run(rank="neither", verify="hard to say")[0]["answer"] == "Karl Oster"


@pytest.mark.parametrize(
    ("reply", "answer"), [("(a) Ada Brenner", "Ada Brenner"), ("Unknown", "Unknown"), ("", "Unknown")]
)
def test_one_candidate_or_none_needs_no_summary(reply: str, answer: str) -> None:
    out, calls = run(propose=reply)
    assert (out["answer"], len(calls)) == (answer, 1)


def test_without_passages_nothing_is_asked() -> None:
    model = ScriptedModel(script=script())
    out = build_graph("sure", model=model, retriever=RecordingRetriever(documents=[])).invoke(ASK)
    assert (out["answer"], model.calls) == ("Unknown", [])


def test_the_released_codes_prompts() -> None:
    replies = {"summarise": "She built it. [DONE]", "rank": "Passage 2"}
    _, calls = run({"profile": "paper", "k": 1}, **replies)
    for_ada = [call for call in calls if call.text.rfind("Ada Brenner") > call.text.rfind("Prediction")]
    texts = {call.node: call.text for call in [*calls, *for_ada]}  # candidates are summarised in no fixed order
    passage = f"Passage #1 Title: Card 0\nPassage #1 Text: {CARDS[0].page_content}"
    assert texts["propose"] == (
        "Below are 1 passages related to the question at the end. After reading the passages, provide two correct "
        "candidates for the answer to the question at the end. Each answer should be in the form: (a) xx, (b) yy, and "
        f"should not exceed 3 words for each candidate.\n\n{passage}\n\nQuestion:\n{ASK['question']}\n\nAnswer: "
    )
    assert texts["summarise"].startswith(f"{passage}\n\nYour job is to act as a professional writer.")
    assert texts["summarise"].endswith(
        "\nChoices:(a) Karl Oster (b) Ada Brenner\nPrediction:(b) Ada Brenner\nPassage: "
    )
    assert texts["verify"] == (
        f"Question:\n{ASK['question']}\n\nPrediction:\nAda Brenner\n\nPassage:\nShe built it.\n\nDoes the passage correctly "
        "support the prediction? Choices: [True, False]. Answer:"
    )
