"""Reading the replies that models give to the ReAct prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.undressed import undressed

from ragweave.nodes.react_reply import last_answer, parse_react
from ragweave.nodes.replies import bare_text
from ragweave.tools.text.unknown import UNKNOWN

PIECES = [
    "Thought 1: ",
    "Thought:",
    "Action 1: ",
    "**Action:** ",
    "Action Input: ",
    "Search[",
    "search(",
    "Finish[",
    "Search",
    "Finish:",
    "]",
    "[",
    ")",
    "Observation 1: ",
    "So the answer is ",
    "Final Answer: ",
    "the builder of the light",
    "Paris",
    "Unknown",
    "```",
    "<think>",
    "</think>",
    "\n",
    " ",
    '"',
]
REPLIES = st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join))
KINDS = st.sampled_from(["short", "long", "yes_no"])


@pytest.mark.parametrize(
    "reply",
    [
        "I need the builder.\nAction 1: Search[the light]",
        "Thought 1: I need the builder.\nAction 1: Search[the light]\nObservation 1: Bob built it.",
        "**Thought:** I need the builder.\n**Action:** Search[the light]\n**Observation:** Bob.",
        "Thought: I need the builder.\nAction: search('the light')",
        "Thought: I need the builder.\nAction: Search\nAction Input: the light",
        "Thought: I need the builder.\nAction: Search: the light",
        "Thought: I need the builder.\nAction 1: Search[the light]\nAction 2: Search[Bob]",
        "Thought: I need the builder.\nSearch[the light] Finish[Bob]",
        "Thought: I need the builder.\nAction: Search[the light",
        "<think>Finish[Bob]</think>Thought: I need the builder.\nAction: `Search[the light]`",
        "Thought: I need the builder.\nAction: Search[]\nAction: Search[the light]",
        "Thought: I need the builder.\nSearch(the light)",
        "Thought: I need the builder.\nSearch: the light",
        '{"thought": "I need the builder.", "action": "Search", "action_input": "the light"}',
        'I need the builder.\n```json\n{"action": "search",\n "input": "the light"}\n```',
    ],
)
def test_searches(reply: str) -> None:
    said = parse_react(reply, "short")
    assert (said.thought.rstrip("*"), said.action) == ("I need the builder.", "search")
    assert said.argument == "the light"


@pytest.mark.parametrize(
    "reply",
    [
        "Thought 2: It is Paris.\nAction 2: Finish[Paris]",
        "Finish[Paris.]",
        'Action: Finish("Paris")',
        "Action: Finish: Paris",
        "Thought: I know.\nFinish: Paris",
        "Thought: I know.\nFinish(Paris)",
        "Thought: I know.\n**Finish:** Paris",
        "Thought: I know.\nAction: Finish\nFinal Answer: Paris",
        "Thought: I know.\nAction 2: Finish\nAnswer: Paris",
        '{"thought": "I know.", "action": "Finish", "action_input": "Paris"}',
        "Action: Finish\nParis",
        "Action: Finish\n\nFinal Answer: Paris",
        'Finish(answer="Paris")',
        "Action: Finish\nInput: Paris",
        "Finish:\nAnswer: Paris",
        "Finish: Done\nFinal answer: Paris",
        "Search: No further search needed.\nSo the answer is Paris.",
        "Search: (none)\nAnswer: Paris",
        "Search (again) is not needed.\nFinish[Paris]",
        "Finish[Paris",
        "Thought: done\nFinal Answer: Paris",
        "Thought: The answer is Paris.",
        "It lies on the Seine, so the answer is Paris.",
        "So the final answer is: Paris.\nObservation: Rome",
        "Action: Finish[Paris]\nObservation: ok\nAction: Finish[Rome]",
    ],
)
def test_finishes(reply: str) -> None:
    said = parse_react(reply, "short")
    assert (said.action, said.argument) == ("finish", "Paris")
    assert last_answer(reply, "short") == "Paris"


@pytest.mark.parametrize(
    ("action", "argument"),
    [
        ('Search[the film "Jaws"]', 'the film "Jaws"'),
        ('Search["Jaws" director]', '"Jaws" director'),
        ('Search["the light"]', "the light"),
        ("Search: the film “Jaws”", "the film “Jaws”"),
        ("Search[*the command `ls`*]", "the command `ls`"),
        ('Finish[the film "Jaws"]', 'the film "Jaws"'),
        ("Finish[5'10\"]", "5'10\""),
    ],
)
def test_a_quote_stays_with_its_partner(action: str, argument: str) -> None:
    assert parse_react(f"Thought 1: I see.\nAction 1: {action}", "short").argument == argument


def test_nested_brackets_belong_to_the_argument() -> None:
    assert parse_react("Search[the song [live] by Ada]", "short").argument == (
        "the song [live] by Ada"
    )


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "Thought: I wonder.",
        "Action: Search[]",
        "Action: Lookup[Paris]",
        "Observation 1: Paris",
        "I should search (again) for it.",
        "We finish: the light is old.",
        "Search: the builder.\nFinish: the name.",
        "I can use:\nSearch(query): looks it up\nFinish(answer): ends",
        "Finish: none",
        '{"action": "Search", "action_input": ""}',
        '{"action": "Lookup", "action_input": "Paris"}',
        "I must know what the answer is about.",
    ],
)
def test_no_action(reply: str) -> None:
    assert parse_react(reply, "short").action == "none"


def test_finish_follows_the_answer_type() -> None:
    assert parse_react("Finish[yes, it is]", "yes_no").argument == "Yes"
    assert parse_react("Finish[]", "short").argument == UNKNOWN
    assert parse_react("Finish[One.\nTwo.]", "long").argument == "One.\nTwo."


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("Paris", "Paris"),
        ("Thought 7: Paris", "Paris"),
        ("Action: Search[more]", UNKNOWN),
        ("Action: Finish\nI am done.", UNKNOWN),
        ("Action: Finish\n\nQuestion: Who built it?", UNKNOWN),
        ("Action: Finish\nSearch[more]", UNKNOWN),
        ("Action: Search[more]\nAction: Finish[Paris]", "Paris"),
        ("", UNKNOWN),
        ("Thought 7: I do not know the answer.", UNKNOWN),
    ],
)
def test_the_last_reply_is_an_answer(reply: str, answer: str) -> None:
    assert last_answer(reply, "short") == answer


@given(REPLIES, KINDS)
def test_nothing_is_made_up(reply: str, kind: str) -> None:
    said = parse_react(reply, kind)  # type: ignore[arg-type]
    text = " ".join(bare_text(reply).split())
    assert (said.argument == "") == (said.action == "none")
    assert " ".join(said.thought.split()) in text
    if said.argument not in (UNKNOWN, "Yes", "No"):
        assert undressed(" ".join(said.argument.split())) in undressed(text)


@given(REPLIES, KINDS)
def test_a_last_answer_is_never_empty(reply: str, kind: str) -> None:
    answer = last_answer(reply, kind)  # type: ignore[arg-type]
    assert answer
    assert undressed(answer) in undressed(bare_text(reply)) or answer in (UNKNOWN, "Yes", "No")


def test_a_search_behind_a_made_up_observation_is_made_and_an_answer_is_not() -> None:
    made_up = (
        "Observation 1:\n<passage 1>\nA 10-point judgment.\n</passage>\nThought 2: It says 10.\n"
    )
    said = parse_react(made_up + "Action 2: Search[verdict of the judge]", "short")
    assert (said.action, said.argument, said.thought) == ("search", "verdict of the judge", "")
    assert parse_react(made_up + "Action 2: Finish[10]", "short").action == "none"
