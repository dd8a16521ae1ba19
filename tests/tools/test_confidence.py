"""Token probabilities out of a reply."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage
from tests.scripted import ScriptedChat

from ragweave.errors import ModelError
from ragweave.tools.models.extractive import ExtractiveChat
from ragweave.tools.models.forms import Token, gives_logprobs, token_probabilities


def message(*entries: Any) -> AIMessage:
    return AIMessage("", response_metadata={"logprobs": {"content": list(entries)}})


def entry(token: str, probability: float = 1.0, *, raw: bytes | None = None) -> dict[str, Any]:
    listed = None if raw is None else list(raw)
    return {"token": token, "logprob": math.log(probability), "bytes": listed}


def test_tokens_have_places_and_probabilities() -> None:
    told = message(entry("It"), entry(" is", 0.5), entry(" Paris", 0.25), entry("."))
    tokens = token_probabilities(told, "It is Paris.")
    assert tokens == [
        Token(0, 2, 1.0),
        Token(2, 5, 0.5),
        Token(5, 11, 0.25),
        Token(11, 12, 1.0),
    ]


def test_white_space_around_and_end_marks_are_left_out() -> None:
    told = message(entry("\n"), entry(" It", 0.5), entry("\n"), entry("<|im_end|>", 0.1))
    assert token_probabilities(told, "It") == [Token(0, 2, 0.5)]


def test_a_character_of_several_tokens() -> None:
    first, second = "é".encode()[:1], "é".encode()[1:]
    told = message(
        entry("a", raw=b"a"), entry("\\xc3", 0.3, raw=first), entry("\\xa9", 0.9, raw=second)
    )
    tokens = token_probabilities(told, "aé")
    assert tokens == [Token(0, 1, 1.0), Token(1, 1, pytest.approx(0.3)), Token(1, 2, 0.9)]
    assert tokens[1].touches(1, 2)
    assert not tokens[1].touches(0, 1)


def test_tokens_that_do_not_add_up_are_searched_for() -> None:
    told = message(entry("▁It", 0.9), entry("is", 0.5), entry("▁??"), entry("Paris", 0.25))
    tokens = token_probabilities(told, "It is Paris")
    assert tokens is not None
    assert [(one.start, one.end) for one in tokens] == [(0, 0), (3, 5), (5, 5), (6, 11)]


@pytest.mark.parametrize(
    "told", [{}, {"logprobs": None}, {"logprobs": {"content": None}}, {"logprobs": {}}]
)
def test_a_reply_without(told: dict[str, Any]) -> None:
    assert token_probabilities(AIMessage("x", response_metadata=told), "x") is None


def test_odd_log_probabilities() -> None:
    told = message(
        {"token": "a", "logprob": float("nan")},
        {"token": "b", "logprob": -9999.0},
        {"token": "c", "logprob": 1e-9},
        {"token": "d", "logprob": float("-inf")},
    )
    tokens = token_probabilities(told, "abcd")
    assert tokens is not None
    assert [one.probability for one in tokens] == [0.0, 0.0, 1.0, 0.0]


@given(st.lists(st.tuples(st.text(max_size=4), st.floats(0.001, 1.0))), st.booleans())
def test_any_tokens_tile_the_text(pieces: list[tuple[str, float]], with_bytes: bool) -> None:
    told = message(
        *[
            entry(text, share, raw=text.encode("utf-8", "replace") if with_bytes else None)
            for text, share in pieces
        ]
    )
    whole = "".join(
        text.encode("utf-8", "replace").decode() if with_bytes else text for text, _ in pieces
    )
    tokens = token_probabilities(told, whole)
    assert tokens is not None
    assert [one.end for one in tokens[:-1]] == [one.start for one in tokens[1:]]
    if whole:
        assert (tokens[0].start, tokens[-1].end) == (0, len(whole))
        assert "".join(whole[one.start : one.end] for one in tokens) == whole


@given(st.lists(st.text(max_size=6)), st.text())
def test_any_tokens_fit_any_text(pieces: list[str], text: str) -> None:
    tokens = token_probabilities(message(*map(entry, pieces)), text)
    assert tokens is not None
    for token in tokens:
        assert 0 <= token.start <= token.end <= len(text)


def test_which_models_can() -> None:
    class WithSetting(ScriptedChat):
        logprobs: bool | None = None

    class SaysSo(ScriptedChat):
        @property
        def gives_logprobs(self) -> bool:
            return True

    assert gives_logprobs(WithSetting())
    assert gives_logprobs(WithSetting().bind(temperature=0).with_config(tags=["x"]))
    assert gives_logprobs(SaysSo())
    assert gives_logprobs(ScriptedChat().bind(logprobs=True))
    assert not gives_logprobs(ScriptedChat())
    assert not gives_logprobs(ExtractiveChat())


def test_the_hosted_and_the_local_model_can() -> None:
    from langchain_openai import ChatOpenAI

    from ragweave.llamacpp.chat import LlamaCppChat

    assert gives_logprobs(ChatOpenAI(model="m", api_key="none"))
    assert "logprobs" in LlamaCppChat.model_fields


@pytest.mark.parametrize(
    "content",
    [
        [{"token": "It", "logprob": None}],
        [{"logprob": -1.0}],
        [{"token": "It", "logprob": "low"}],
        [{"token": "It", "logprob": -1.0, "bytes": [999]}],
        [5],
    ],
)
def test_probabilities_in_another_form_are_one_clear_line(content: Any) -> None:
    told = AIMessage("It", response_metadata={"logprobs": {"content": content}})
    with pytest.raises(ModelError, match="cannot read the reply's log-probabilities"):
        token_probabilities(told, "It")
