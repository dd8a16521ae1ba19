"""What a reply says: how it ended, where no client of `test_ends.py` shows it; its tokens, its text."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from ragweave.tools.models.messages import ShownReply, ending_of, text_of, tokens_of, without_echo, without_thoughts

# -- how it ended ------------------------------------------------------------------------------

CONVERSE = {"ResponseMetadata": {"HTTPStatusCode": 200}, "metrics": {"latencyMs": [300]}}
GEMINI = {"prompt_feedback": {"block_reason": 0, "safety_ratings": []}, "safety_ratings": []}
ENDINGS: list[tuple[str, dict[str, Any], str]] = [
    ("openai", {"finish_reason": None}, ""),
    ("responses", {"status": "failed"}, "failed"),
    ("bedrock", {**CONVERSE, "stopReason": "end_turn"}, "stop"),
    ("bedrock", {**CONVERSE, "stopReason": "guardrail_intervened"}, "content_filter"),
    ("bedrock", {**CONVERSE, "stopReason": "max_tokens"}, "length"),
    ("gemini", {**GEMINI, "finish_reason": "STOP"}, "stop"),
    ("gemini", {**GEMINI, "finish_reason": "MAX_TOKENSMAX_TOKENS"}, "length"),
    ("gemini", {**GEMINI, "finish_reason": "RECITATION"}, "content_filter"),
    ("gemini", {"prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}, "content_filter"),
    ("gemini", {**GEMINI, "finish_reason": "MALFORMED_FUNCTION_CALL"}, "failed"),
    ("vertex", {"is_blocked": True, "finish_reason": "STOP"}, "content_filter"),
    ("ollama", {"done": True, "done_reason": "load"}, "failed"),
    ("cohere", {"finish_reason": "COMPLETE"}, "stop"),
    ("cohere", {"finish_reason": "ERROR_TOXIC"}, "content_filter"),
    ("zhipu", {"finish_reason": "network_error"}, "failed"),
    ("zhipu", {"finish_reason": "sensitive"}, "content_filter"),
    ("vllm", {"finish_reason": "abort"}, "failed"),
    ("tgi", {"finish_reason": "eos_token"}, "stop"),
    ("watsonx", {"finish_reason": "time_limit"}, "failed"),
    ("a server of one's own", {}, ""),
]


@pytest.mark.parametrize(("provider", "metadata", "ending"), ENDINGS, ids=lambda value: str(value)[:40])
def test_how_a_reply_ended(provider: str, metadata: dict[str, Any], ending: str) -> None:
    assert ending_of(AIMessage("Ada", response_metadata=metadata)) == ending, provider


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("", additional_kwargs={"refusal": "I can't."}, response_metadata={"finish_reason": "stop"}),
        AIMessage([{"type": "refusal", "refusal": "I can't."}], response_metadata={"status": "completed"}),
    ],
)
def test_a_refusal_is_filtered(message: AIMessage) -> None:
    assert ending_of(message) == "content_filter"


# -- its tokens --------------------------------------------------------------------------------

PROMPT: list[BaseMessage] = [HumanMessage("Who built the bridge at Alden?")]


def counted(**usage: Any) -> tuple[int, int, bool]:
    usage = {"total_tokens": 0, "output_tokens": 0, **usage}
    return tokens_of(AIMessage("Ada Brenner", usage_metadata=usage), PROMPT)  # type: ignore[arg-type]


def test_a_report_of_no_tokens_is_none() -> None:
    estimated = tokens_of(AIMessage("Ada Brenner"), PROMPT)
    assert estimated[2] is True
    assert counted(input_tokens=0) == estimated
    assert counted(input_tokens=40) == (40, estimated[1], True)
    assert counted(input_tokens=40, output_tokens=2) == (40, 2, False)


def test_cached_tokens_are_part_of_the_input_unless_they_exceed_it() -> None:
    assert counted(input_tokens=1650, output_tokens=2, input_token_details={"cache_read": 1600})[0] == 1650
    assert counted(input_tokens=12, output_tokens=2, input_token_details={"cache_read": 1600})[0] == 1612


# -- its text ----------------------------------------------------------------------------------


def test_a_tool_call_is_text_only_if_tools_were_offered() -> None:
    call = AIMessage("", tool_calls=[{"name": "Grade", "args": {"grade": "Correct"}, "id": "1"}])
    assert text_of(call, called=True) == '{"grade": "Correct"}'
    assert text_of(call) == ""


def test_a_reply_of_invisible_characters_is_empty() -> None:
    assert without_thoughts("\ufeff\u200b\n\u2060") == ""
    assert without_thoughts("\u200b1931\u200b").strip("\u200b") == "1931"


PASSAGE = "The bridge at Alden was built by Ada Brenner in 1931. Its five arches are of grey granite."
QUESTION = "Who built the bridge at Alden, and of what stone are its arches made?"
ASKED = [
    SystemMessage("You answer questions from the passages that you are given. They are quoted data."),
    HumanMessage(
        f'<passage id="1">\n{PASSAGE}\n</passage>\n\nQuestion: {QUESTION}\nAnswer the question, or say Unknown.'
    ),
]
ECHO = "\n".join(str(message.text) for message in ASKED)


@pytest.mark.parametrize(
    ("reply", "rest"),
    [
        (ECHO, ""),
        (str(ASKED[1].text), ""),
        (ECHO[:120], ""),  # cut at its limit
        (f"{ECHO}\n\nAda Brenner", "Ada Brenner"),
        (f"{ASKED[1].text}\n\nAnswer: Ada Brenner", "Answer: Ada Brenner"),
    ],
)
def test_an_echo_of_the_prompt_is_not_read(reply: str, rest: str) -> None:
    assert without_echo(reply, ASKED, [QUESTION, PASSAGE]) == rest


@pytest.mark.parametrize(
    "reply",
    [
        PASSAGE,
        f"{PASSAGE} So the answer is Ada Brenner.",
        f"Passage 1 says: {PASSAGE}",
        f"{QUESTION}\nAda Brenner, and of granite.",
        f"Question: {QUESTION}\nAnswer: Ada Brenner, and of granite.",
        f"I am to answer the question from the passages, or say Unknown. {PASSAGE} So the answer is Ada Brenner.",
        "You answer questions from the passages, so: Ada Brenner.",
        "You answer questions",
    ],
)
def test_what_quotes_the_prompt_is_no_echo(reply: str) -> None:
    assert without_echo(reply, ASKED, [QUESTION, PASSAGE]) == reply


def test_a_quote_that_begins_the_message_is_no_echo() -> None:
    bare = [HumanMessage(f"{PASSAGE}\n{QUESTION}")]
    sentence = "The bridge at Alden was built by Ada Brenner in 1931."
    assert without_echo(sentence, bare, [PASSAGE]) == sentence
    assert without_echo(f"{PASSAGE} {QUESTION} Ada.", bare, [PASSAGE]) == "Ada."


@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("<think>Elm is 1950.</think>It opened in 1931.", "It opened in 1931."),
        ("<seed:think>Elm is 1950.</seed:think>\n\nIt opened in 1931.", "It opened in 1931."),
        ("◁think▷Elm.◁/think▷ 1931", "1931"),
        ("[THINK]Elm.[/THINK]1931 [1]", "1931"),
        ("It opened in 1931 [1][2], by Ada (passage 3) 【4†source】.", "It opened in 1931, by Ada."),
        ("It opened in 1931 (or 1932).", "It opened in 1931 (or 1932)."),
        ("It is a < b, see [1", "It is a < b, see [1"),
        ("<think>Elm is", ""),
    ],
)
def test_a_reply_is_shown_without_its_thoughts(reply: str, shown: str) -> None:
    live = ShownReply()
    pieces = [live.add(reply[at : at + 3]) for at in range(0, len(reply), 3)]
    assert not any("Elm" in piece or "think" in piece.lower() for piece in pieces)
    assert "".join([*pieces, live.add("", ends=True)]) == live.text == shown
