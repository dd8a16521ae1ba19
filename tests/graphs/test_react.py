"""ReAct: actions, reminders, ends, and the plain form of BlendFilter's tables."""

from __future__ import annotations

from typing import Any

import pytest

from ragweave.errors import UsageError
from ragweave.graphs import build_graph
from ragweave.testing import RecordingRetriever, ScriptedModel

QUESTION = "Who built the bridge at Alden?"
SEARCH = "Thought 1: I look.\nAction 1: Search[bridge at Alden]"
FINISH = "Thought 2: She did.\nAction 2: Finish[Ada Brenner]"


def run(*replies: str, **options: Any) -> tuple[dict[str, Any], Any, list[str]]:
    model, retriever = ScriptedModel(script=replies), RecordingRetriever()
    out = build_graph("react", model=model, retriever=retriever, **options).invoke({"question": QUESTION})
    return out, model.calls, retriever.searches


def transcript(call: Any) -> str:
    return str(call.last.rpartition(f"Question: {QUESTION}\n")[2])


def test_a_step_is_asked_for_by_its_number_behind_what_was_observed() -> None:
    out, calls, searches = run(SEARCH, FINISH, k=1)
    assert (out["answer"], searches, len(out["passages"])) == ("Ada Brenner", ["bridge at Alden"], 1)
    assert transcript(calls[0]) == f"Now write Thought 1 and Action 1 for the question: {QUESTION}"
    assert transcript(calls[1]).startswith(
        'Thought 1: I look.\nAction 1: Search[bridge at Alden]\nObservation 1:\n<passage 1 title="Card '
    )


@pytest.mark.parametrize(
    ("reply", "observed"),
    [
        ("I wonder about it.", "Thought 2: I wonder about it.\nObservation 2: No action was read."),
        (SEARCH, "Observation 2: bridge at Alden was searched before. Read the observations above;"),
    ],
)
def test_a_reply_without_a_new_search_is_asked_again_with_a_reminder(reply: str, observed: str) -> None:
    out, calls, searches = run(SEARCH, reply, FINISH)
    assert (out["answer"], len(calls), len(searches)) == ("Ada Brenner", 3, 1)
    assert observed in transcript(calls[2])


@pytest.mark.parametrize("first", ["Finish[Karl Oster]", "Finish[Unknown]", "Hm.", ""])
def test_what_is_said_before_anything_was_read_is_looked_up(first: str) -> None:
    out, _, searches = run(first, FINISH)
    assert (out["answer"], searches) == ("Ada Brenner", [QUESTION])
    assert run(FINISH, fallback_retrieval=False)[2] == []


def test_the_last_step_must_finish_and_concat_answers_if_it_does_not() -> None:
    out, calls, _ = run(SEARCH, "Search[quarry]", "Ada Brenner", max_steps=2)
    assert "No search is left: write Finish with the answer in square brackets, or Finish[Unknown]." in calls[1].last
    assert ([call.node for call in calls], out["answer"]) == (["react", "react", "concat"], "Ada Brenner")
    model = ScriptedModel(script=[SEARCH, FINISH], profile={"structured_output": True})
    out = build_graph("react", model=model, retriever=RecordingRetriever(), max_steps=2).invoke({"question": QUESTION})
    assert (out["answer"], [call.form for call in model.calls]) == ("Ada Brenner", ["", ""])


def test_the_answer_of_an_example_is_a_copy() -> None:
    assert run(SEARCH, "Finish[Blue Heron]", FINISH)[0]["answer"] == "Ada Brenner"


def test_blendfilters_tables_have_plain_react() -> None:
    out, calls, searches = run(SEARCH, SEARCH, FINISH, profile="blendfilter")
    assert (out["answer"], searches) == ("Ada Brenner", ["bridge at Alden"] * 2)
    first, again = [transcript(calls[2]).split(f"Observation {number}:")[1] for number in (1, 2)]
    assert first.partition("Thought")[0] == again.partition("Thought")[0]
    assert first.startswith("\nCard 1 | The river Sorre runs under the bridge at Alden.")
    assert calls[0].text.startswith(
        "Solve a question answering task with interleaving Thought, Action, Observation steps."
    )
    assert calls[0].last.endswith(
        f"So Pavel Urysohn and Leonid Levin have the same type of work.\nAction 3: Finish[yes]\n"
        f"Question: {QUESTION}\nThought 1:"
    )
    out, calls, searches = run("Finish[Karl Oster]", profile="blendfilter")
    assert (out["answer"], len(calls), searches) == ("Karl Oster", 1, [])


def test_there_a_thought_without_an_action_is_asked_for_its_action() -> None:
    """Yao et al.'s released code."""
    thought = "I do not know yet what the answer is, so I should look up the bridge."
    out, calls, searches = run(thought, "Search[bridge at Alden]", FINISH, profile="blendfilter", k=1)
    assert (out["answer"], searches) == ("Ada Brenner", ["bridge at Alden"])
    assert transcript(calls[1]) == f"Thought 1: {thought}\nAction 1:"
    assert transcript(calls[2]).startswith(
        f"Thought 1: {thought}\nAction 1: Search[bridge at Alden]\nObservation 1:\nCard 1 | "
    )
    _, calls, _ = run("Hm.", "I look it up.", FINISH, profile="blendfilter")
    assert transcript(calls[2]) == "Thought 1: Hm.\nObservation 1: Invalid action: I look it up.\nThought 2:"


@pytest.mark.parametrize(
    "prose", ["The final answer is Karl Oster.", "I don't know yet what the answer is.", "Answer: Karl"]
)
@pytest.mark.parametrize("profile", ["", "blendfilter"])
def test_only_finish_ends(prose: str, profile: str) -> None:
    out, _, _ = run(SEARCH, *[prose] * (1 + bool(profile)), FINISH, **({"profile": profile} if profile else {}))
    assert out["answer"] == "Ada Brenner"
    searching = [f"Search[bridge {number}]" for number in range(6)]
    out, _, _ = run(*searching, prose, prose, profile="blendfilter")
    assert (out["status"], out["truncated"]) == ("unknown", True)


def test_seven_free_steps_without_finish_are_wrong_there() -> None:
    searching = [f"Search[bridge {number}]" for number in range(9)]
    out, calls, searches = run(*searching, profile="blendfilter")
    assert (out["status"], out["truncated"], len(calls), len(searches)) == ("unknown", True, 7, 6)
    assert all("No search is left" not in call.last for call in calls)


@pytest.mark.parametrize("method", ["react", "self_ask"])
def test_a_chain_cannot_be_sampled(method: str) -> None:
    with pytest.raises(UsageError, match="run the graph 3 times"):
        build_graph(method, samples=3)
