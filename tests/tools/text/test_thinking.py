"""Thinking blocks: taken off whole replies, and off replies that grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.tools.text.reply import MARKS, ThinkingFlow, open_mark, without_thinking

ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
JSON, COMMENTARY = "<|channel|>final json<|message|>", "<|channel|>commentary<|message|>"
CALL = "<|channel|>commentary to=functions.search <|constrain|>json<|message|>"
ASSISTANT = "<|start|>assistant"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("Paris.", "Paris."),
        ("<think>\nhm\n</think>\n\nParis.", "Paris."),
        ("<THINK>hm</Think>Paris.", "Paris."),
        ("hm, so </think> Paris.", "Paris."),
        ("<think>hm, it never", ""),
        ("<think></think>", ""),
        ("a <think>b</think> c", "a \n c"),
        ("<|channel>thought\nhm<channel|>Paris.", "Paris."),
        ("[THINK]hm[/THINK]Paris.", "Paris."),
        (f"{ANALYSIS}hm<|end|>{ASSISTANT}{FINAL}Paris.", "Paris."),
        (f"{ANALYSIS}hm{FINAL}Paris.", "Paris."),
        (f"{ANALYSIS}hm<|end|>{ASSISTANT}<|channel|>commentary<|message|>x{FINAL}Paris.", "Paris."),
        (f"{ANALYSIS}hm, it never <|end|>{ASSISTANT}", ""),
        (f"hm<|end|>{ASSISTANT}{FINAL}Paris.", "Paris."),
        (f"{FINAL}Paris.", "Paris."),
        (f"{ANALYSIS}hm<|end|>{ASSISTANT}{JSON}Paris.", "Paris."),
        (f"{COMMENTARY}hm<|end|>{ASSISTANT}{FINAL}Paris.", "Paris."),
        (f"{ANALYSIS}hm<|end|><|start|>{FINAL}Paris.", "Paris."),
        (f"{JSON}Paris.", "Paris."),
        ("The channel <|channel|> is shut.", "The channel <|channel|> is shut."),
    ],
)
def test_a_whole_reply_loses_its_thinking(reply: str, said: str) -> None:
    assert without_thinking(reply) == said


@given(st.text(st.sampled_from("<>think/[]THINK |channel\n ab"), max_size=60))
def test_any_text_is_read_and_keeps_no_closed_block(text: str) -> None:
    said = without_thinking(text)
    assert not any(begin in said and end in said for begin, end in MARKS)


@given(
    st.sampled_from([None, *MARKS]),
    st.sampled_from(["", "hm", "hm < / think, <", "a\nb "]),
    st.sampled_from(["Paris.", "<b> Paris", "a <think> b", ""]),
    st.integers(1, 7),
    st.booleans(),
)
def test_a_growing_reply_comes_apart_wherever_it_is_cut(
    marks: tuple[str, str] | None, thought: str, spoken: str, step: int, opened: bool
) -> None:
    reply = spoken
    if marks is not None:
        reply = f"{'' if opened else marks[0]}{thought}{marks[1]}\n\n{spoken}"
    flow = ThinkingFlow(marks if opened else None)
    said = "".join(flow.push(reply[at : at + step]) for at in range(0, len(reply), step))
    said += flow.flush()
    assert said == (spoken if marks is None else spoken.lstrip())
    assert flow.thought == ("" if marks is None else thought)


def parted(reply: str, step: int) -> tuple[str, str]:
    """Return what is said and what is thought in a reply that comes in pieces."""
    flow = ThinkingFlow()
    said = "".join(flow.push(reply[at : at + step]) for at in range(0, len(reply), step))
    return said + flow.flush(), flow.thought


@given(
    st.sampled_from([ANALYSIS, COMMENTARY, CALL, f"{ASSISTANT}{ANALYSIS}", ""]),
    st.sampled_from(["hm", "hm" * 200, f"hm<|end|>{ASSISTANT}<|channel|>commentary, so"]),
    st.sampled_from(["", "<|start|>", ASSISTANT]),
    st.sampled_from([FINAL, JSON, "<|channel|>final <|constrain|>json<|message|>"]),
    st.integers(1, 30),
)
def test_the_channels_of_gpt_oss_come_apart_wherever_they_are_cut(
    begin: str, thought: str, role: str, final: str, step: int
) -> None:
    thought = thought if begin else ""
    assert parted(f"{begin}{thought}{role}{final}Paris.", step) == ("Paris.", thought)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_mark_that_ends_a_message_is_no_thought(step: int) -> None:
    assert parted(f"{ANALYSIS}hm<|end|>{ASSISTANT}{FINAL}Paris.", step) == ("Paris.", "hm")


@given(
    st.sampled_from(["<|start|> your engines", f"{ASSISTANT}, no", "<|channel|>final " * 3]),
    st.integers(1, 60),
)
def test_what_only_looks_like_a_channel_is_said(reply: str, step: int) -> None:
    assert parted(reply, step) == (reply, "")


def test_what_is_cut_off_while_thinking_is_no_reply() -> None:
    flow = ThinkingFlow()
    assert flow.push("<think>The capital </thi") + flow.flush() == ""
    assert flow.thought == "The capital </thi"


def test_a_prompt_that_opens_a_block_is_seen() -> None:
    assert open_mark("<|im_start|>assistant\n<think>\n") == ("<think>", "</think>")
    assert open_mark("<|im_start|>assistant\n<think>\n\n</think>\n\n") is None
