"""Reading notes and answer off a reply."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loops import events
from tests.scripted import ScriptedChat, documents

from ragweave import build_graph
from ragweave.nodes.chain_of_note import PROMPTS, parse_notes, read_noted
from ragweave.tools.text.normalize import estimate_message_tokens

PASSAGES = documents("Ada Brenner built the light.", "The light is grey.")
PIECES = [
    "Note 1:",
    "Note 2:",
    "**Note 3**:",
    "Answer:",
    " It is grey.",
    "\n",
    "Passage 1 -",
    "<think>",
]


@pytest.mark.parametrize(
    ("reply", "notes"),
    [
        (
            "Note 1: She built it.\nNote 2: Irrelevant.\nAnswer: Ada",
            ["She built it.", "Irrelevant."],
        ),
        ("**Note 1:** She built it.\n- **Note 2**: Grey.", ["She built it.", "Grey."]),
        ("Passage 1 (The light): She built it.\nAnswer: Note 2: no", ["She built it."]),
        ("Note 1: first\nNote 1: second\nNote 9: none", ["first"]),
        ("Ada", []),
        ("", []),
    ],
)
def test_notes_are_read_by_their_passages(reply: str, notes: list[str]) -> None:
    assert list(parse_notes(reply, 2).values()) == notes


@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES)).map("".join)), st.integers(0, 4))
def test_any_reply_can_be_read(reply: str, passages: int) -> None:
    notes = parse_notes(reply, passages)
    assert set(notes) <= set(range(1, passages + 1))
    assert all(note.strip() and "\n" not in note for note in notes.values())


def asked(reply: str, **options: Any) -> tuple[Any, list[str], ScriptedChat]:
    model = ScriptedChat(replies=[reply])
    graph = build_graph("chain_of_note", model=model, **options)
    given: Any = {"question": "Who built it?", "passages": PASSAGES}
    *_, state = graph.stream(given, stream_mode="values")
    return state, events(state), model


def test_the_answer_stands_behind_the_notes() -> None:
    state, noted, _ = asked("Note 1: She built it.\nNote 2: Irrelevant.\nAnswer: Ada Brenner")
    assert (state["answer"], noted) == ("Ada Brenner", [])


def test_unknown_is_an_answer_and_missing_notes_are_told() -> None:
    state, noted, _ = asked("Note 1: It names no builder.\nAnswer: Unknown")
    assert (state["status"], noted) == ("unknown", ["notes_missing"])


def test_a_note_is_no_answer_and_the_answer_is_asked_for() -> None:
    model = ScriptedChat(replies=["Note 1: She built the light.", "Ada Brenner"])
    graph = build_graph("chain_of_note", model=model)
    given: Any = {"question": "Who built it?", "passages": PASSAGES}
    *_, state = graph.stream(given, stream_mode="values")
    assert state["answer"] == "Ada Brenner"
    assert events(state) == ["answer_rejected", "asked_again", "notes_missing"]
    state, *_ = asked("Note 1: She built the light.", ask_again=False)
    assert state["status"] == "unknown"


@pytest.mark.parametrize(
    ("reply", "kind", "answer"),
    [
        ("Note 1: She built the light.", "short", "Unknown"),
        ("**Note 1:** Yes.", "yes_no", "Unknown"),
        ("Note 1: a\nAnswer: Ada", "short", "Ada"),
        ("Ada", "short", "Ada"),
        (
            "Passage #1 names her. Based on the information given in above passages, the answer is "
            "Ada Brenner.",
            "short",
            "Ada Brenner",
        ),
        ("It does not say. Given that, the answer is unknown.", "short", "Unknown"),
        ("Note 1: a\nAnswer: She built it.\nIt is grey.", "long", "She built it.\nIt is grey."),
    ],
)
def test_the_answer_behind_notes(reply: str, kind: Any, answer: str) -> None:
    assert read_noted(reply, kind).answer == answer


@pytest.mark.parametrize(
    ("kind", "options", "room"),
    [
        ("short", {}, 64 * 10 + 64),
        ("long", {}, 64 * 10 + 512),
        ("short", {"reply_tokens": 512}, 512),
        ("long", {"reply_tokens": 300}, 300),
    ],
)
def test_there_is_room_for_a_note_on_each_passage(
    kind: str, options: dict[str, Any], room: int
) -> None:
    model = ScriptedChat(replies=["Note 1: a\nAnswer: Ada"])
    graph = build_graph("chain_of_note", model=model, **options)
    many: Any = {"question": "Who?", "passages": list("abcdefghij"), "answer_type": kind}
    graph.invoke(many)
    assert model.seen[0].settings["max_tokens"] == room


def test_notes_take_no_more_than_the_context_has_left() -> None:
    model = ScriptedChat(replies=["Note 1: a\nAnswer: Ada"], profile={"max_input_tokens": 1200})
    passages = [f"{name} " * 60 for name in ("alpha", "beta", "gamma", "delta", "epsilon") * 2]
    graph = build_graph("chain_of_note", model=model)
    graph.invoke({"question": "Who?", "passages": [f"{n} {one}" for n, one in enumerate(passages)]})
    (seen,) = model.seen
    left = 1200 - estimate_message_tokens(seen.messages)
    assert 512 <= seen.settings["max_tokens"] <= left < 64 * 10 + 64


def test_the_examples_judge_different_passages_differently() -> None:
    """Shown the same irrelevant passage first twice, small models call most passages so."""
    messages = PROMPTS["chain_of_note"].format_messages(
        question="Who?", passages="", answer_form="", otherwise=""
    )
    _, asked, told, asked_then, told_then, _ = [str(one.text) for one in messages]
    assert not set(re.findall("<passage.*", asked)) & set(re.findall("<passage.*", asked_then))
    notes = [parse_notes(one, 2) for one in (told, told_then)]
    assert [["irrelevant" in one[number] for number in (1, 2)] for one in notes] == [
        [True, False],
        [False, True],
    ]


def test_own_knowledge_is_allowed_or_not() -> None:
    *_, free = asked("Note 1: a\nNote 2: b\nAnswer: Ada")
    *_, held = asked("Note 1: a\nNote 2: b\nAnswer: Ada", own_knowledge=False)
    assert "answer from what you know" in free.seen[0].text
    assert "answer from what you know" not in held.seen[0].text
