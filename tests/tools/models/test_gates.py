"""Log-probabilities in, a measure out."""

from __future__ import annotations

import math
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from ragweave.errors import UsageError
from ragweave.tools.models.decisions import Token, disagreement, gate_settings, tokens_in, uncertainty


def reply(*places: list[float]) -> AIMessage:
    """Return a reply of one token a place, whose candidates have these probabilities."""
    content = [
        {"token": "x", "logprob": math.log(chances[0]), "top_logprobs": [{"logprob": math.log(p)} for p in chances]}
        for chances in places
    ]
    return AIMessage("x" * len(places), response_metadata={"logprobs": {"content": content}})


def message(*entries: tuple[str, float], raw: bool = False) -> AIMessage:
    content: list[dict[str, Any]] = [
        {"token": text, "logprob": math.log(share), "bytes": list(text.encode("utf-8")) if raw else None}
        for text, share in entries
    ]
    return AIMessage("", response_metadata={"logprobs": {"content": content}})


def test_the_measures_are_what_they_say() -> None:
    message = reply([0.5, 0.25], [1.0])
    assert uncertainty(message, "mean") == pytest.approx(math.log(2) / 2)
    assert uncertainty(message, "least") == pytest.approx(math.log(2))
    assert uncertainty(message, "margin") == pytest.approx(0.25)
    shares = (2 / 3, 1 / 3)
    assert uncertainty(message, "entropy") == pytest.approx(-sum(share * math.log(share) for share in shares) / 2)
    assert uncertainty(reply([0.8]), "margin") == pytest.approx(0.25), "the rival has what the token leaves"
    assert uncertainty(AIMessage(""), "mean") is None
    assert gate_settings("margin") == {"logprobs": True, "top_logprobs": 5}


def test_what_a_reply_lacks_is_said() -> None:
    with pytest.raises(UsageError, match="the model reports none"):
        uncertainty(AIMessage("Ada"), "mean")
    with pytest.raises(UsageError, match="gate=entropy needs the candidates of each token"):
        uncertainty(message(("Ada", 0.5)), "entropy")


def test_samples_are_compared_word_by_word() -> None:
    drafts = ["The Danube.", "the Danube", "the Rhine it is"]
    assert disagreement(drafts, "variance") == pytest.approx((0 + 1 / 3 + 1 / 3 + 1 / 3) / 4)
    assert disagreement(drafts, "dissimilarity") == pytest.approx(1 - (1 + 2 * 1 / 6 + 2 * 1 / 6) / 3)
    assert disagreement(["", " ?"], "variance") is None


def test_tokens_have_places() -> None:
    reply = message(("<think>so</think>\n", 0.1), ("It", 1.0), (" is", 0.5), (" Paris", 0.25), ("<|im_end|>", 0.1))
    assert tokens_in(reply, "It is Paris") == [Token(0, 2, 1.0), Token(2, 5, 0.5), Token(5, 11, 0.25)]
    assert tokens_in(message(("It’s", 0.5), raw=True), "It's") == [Token(0, 4, 0.5)]


def test_a_character_may_take_several_tokens() -> None:
    first, second = "é".encode()[:1], "é".encode()[1:]
    reply = message(("a", 1.0), ("\\xc3", 0.3), ("\\xa9", 0.9))
    for place, raw in zip(reply.response_metadata["logprobs"]["content"], (b"a", first, second), strict=True):
        place["bytes"] = list(raw)
    tokens = tokens_in(reply, "aé")
    assert [token.touches(1, 2) for token in tokens] == [False, True, True]
