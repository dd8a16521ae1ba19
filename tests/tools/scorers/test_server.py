"""The server scorer, through the real client library over an in-process transport."""

from __future__ import annotations

import json
import math
import re
from itertools import accumulate
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave.errors import ModelError, UsageError
from ragweave.tools.scorers import LogprobScorer, ServerScorer

httpx = pytest.importorskip("httpx")
openai = pytest.importorskip("openai")


def logprob(token):
    """A unigram model: every token has a probability by its length."""
    return -math.log(1 + len(token.strip()))


def echo(text, index, *, begin=""):
    """What a server says of one text: tokens are words with the space before them."""
    tokens = [*([begin] if begin else []), *re.findall(r"\s*\S+|\s+$", text)]
    offsets, at = [], 0
    for token in tokens:
        offsets.append(at)
        at += len(token)
    values = [None, *(logprob(token) for token in tokens[1:])]
    shown = {"tokens": tokens, "text_offset": offsets, "token_logprobs": values, "top_logprobs": []}
    return {"index": index, "text": text, "finish_reason": "length", "logprobs": shown}


def make(batch_size=16, status=200, change=lambda choices: choices, **form):
    requests = []

    def answer(request):
        body = json.loads(request.content)
        requests.append(body)
        if status != 200:
            return httpx.Response(status, json={"error": {"message": "no echo here"}})
        choices = change([echo(text, i, **form) for i, text in enumerate(body["prompt"])])
        reply = {"id": "1", "object": "text_completion", "created": 1, "model": body["model"]}
        return httpx.Response(200, json={**reply, "choices": choices})

    client = openai.OpenAI(
        base_url="http://server.test/v1",
        api_key="none",
        max_retries=0,
        http_client=httpx.Client(transport=httpx.MockTransport(answer)),
    )
    return ServerScorer("m", batch_size=batch_size, client=client), requests


def added_up(tokens):
    return list(accumulate(map(len, tokens[:-1]), initial=0))


def dropping_spaces(shown):
    """As SentencePiece's tokens come from a server that decodes them one by one."""
    tokens = [token.lstrip(" ") for token in shown["tokens"]]
    return {**shown, "tokens": tokens, "text_offset": added_up(tokens)}


SHOWN = {
    "right": lambda shown: shown,
    "no spaces": dropping_spaces,
    "no offsets": lambda shown: {**shown, "text_offset": None},
    "no such offsets": lambda shown: {**shown, "text_offset": [-1] * len(shown["tokens"])},
    "other names": lambda shown: {**shown, "tokens": [f"▁{one}" for one in shown["tokens"]]},
}
"""What servers make of tokens and offsets."""


words = st.lists(st.sampled_from(["a", "bb", "ccc", "dddd"]), min_size=1, max_size=5)


@given(
    st.lists(st.tuples(words, words), max_size=6),
    st.sampled_from([(begin, how) for begin in ("", "<s>") for how in SHOWN][:-1]),
)
def test_only_the_continuations_tokens_are_summed(cases, form):
    begin, how = form

    def change(choices):
        return [{**one, "logprobs": SHOWN[how](one["logprobs"])} for one in choices]

    scorer, requests = make(batch_size=2, begin=begin, change=change)
    pairs = [(" ".join(prompt), " " + " ".join(rest)) for prompt, rest in cases]
    assert scorer.score(pairs) == pytest.approx([sum(map(logprob, rest)) for _, rest in cases])
    assert len(requests) == math.ceil(len(cases) / 2)


def test_the_request_asks_for_the_inputs_own_log_probabilities():
    scorer, requests = make()
    scorer.score([("a b", " c")])
    assert requests[0]["prompt"] == ["a b c"]
    assert (requests[0]["echo"], requests[0]["max_tokens"], requests[0]["logprobs"]) == (True, 0, 1)


def test_a_straddling_token_counts():
    scorer, _ = make()
    assert scorer.score([("who wr", "ote it")]) == pytest.approx([logprob("wrote") + logprob("it")])


def scored(prompt, continuation, tokens, offsets=None):
    """Return the score where the tokens' log-probabilities are -1, -10, -100, … from the last."""
    values = [None, *(-(10.0**place) for place in range(len(tokens) - 2, -1, -1))]
    offsets = added_up(tokens) if offsets is None else offsets
    shown = {"tokens": tokens, "text_offset": offsets, "token_logprobs": values}
    scorer, _ = make(change=lambda choices: [{**one, "logprobs": shown} for one in choices])
    return scorer.score([(prompt, continuation)])[0]


@pytest.mark.parametrize(
    ("prompt", "continuation", "tokens", "score"),
    [
        ("It’s", " Ada", ["It", "\ufffd", "\ufffd", "\ufffd", "s", " Ada"], -1),
        ("who", " é a", ["who", " ", "", "é", " a"], -1111),
        ("who", " Ada", ["who", "", "Ada"], -11),
        ("who ", "Ada", ["who", "Ada"], -1),
        ("a\n", "\nb", ["a", "\n", "\n", "b"], -11),
        ("Q:", " Ada was", ["Q", ":", "ĠAda", "Ġwas"], -11),
        ("Q:", " Ada was", ["▁Q", ":", "▁Ada", "▁was"], -11),
        ("Q:\n", "Ada was", ["Q", ":", "Ċ", "Ada", "Ġwas"], -11),
    ],
)
def test_tokens_count_by_what_they_spell(prompt, continuation, tokens, score):
    assert scored(prompt, continuation, tokens) == score


def test_offsets_count_if_the_tokens_spell_another_text():
    tokens = ["who", " caf", "bytes:\\xc3", "bytes:\\xa9", " b"]
    assert scored("who caf", "é b", tokens, [0, 3, 7, 7, 8]) == -111
    assert scored("who café", " b", tokens, [0, 3, 7, 7, 8]) == -1


@pytest.mark.parametrize("offsets", [None, [0, 3, 7, 8, 9, 30], [0, 7, 3, 8, 9, 9], [3, 6, 10, 10, 11, 12], [0, 3]])
def test_tokens_that_cannot_be_placed_are_an_error(offsets):
    tokens = ["who", " caf", "\ufffd", "\ufffd", " \ufffd", "\ufffd"]
    with pytest.raises(ModelError, match=r"neither spell .* 'who café é' it sent \['who'"):
        scored("who café", " é", tokens, offsets)


def test_choices_come_back_in_any_order():
    scorer, _ = make(change=lambda choices: choices[::-1])
    scores = scorer.score([("x", " a"), ("x", " dddd")])
    assert scores == pytest.approx([logprob("a"), logprob("dddd")])


def test_nothing_to_score_asks_nothing():
    scorer, requests = make()
    assert isinstance(scorer, LogprobScorer)
    assert scorer.score([]) == []
    assert scorer.score([("a", "")]) == [0.0]
    assert requests == []


def test_a_refusal_is_one_clear_line():
    scorer, _ = make(status=400)
    with pytest.raises(ModelError, match=r"refused the scoring request for m: .*no echo here"):
        scorer.score([("a", " b")])


def test_a_passing_fault_stays_what_it_is():
    scorer, _ = make(status=503)
    with pytest.raises(openai.InternalServerError):
        scorer.score([("a", " b")])


@pytest.mark.parametrize(
    "change",
    [
        lambda choices: [{**choice, "logprobs": None} for choice in choices],
        lambda choices: choices[1:],
    ],
)
def test_a_server_without_echo_is_said_to_be_one(change):
    scorer, _ = make(change=change)
    with pytest.raises(ModelError, match="the server"):
        scorer.score([("a", " b")])


def test_an_empty_prompt_and_an_empty_batch_are_the_callers_mistake():
    scorer, _ = make()
    with pytest.raises(UsageError, match="empty prompt"):
        scorer.score([("", "b")])
    with pytest.raises(UsageError, match="batch_size"):
        ServerScorer("m", batch_size=0)


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_score_that_is_no_number_is_an_error(value):
    said = SimpleNamespace(tokens=["a", " b"], text_offset=[0, 1], token_logprobs=[None, value])
    reply = SimpleNamespace(choices=[SimpleNamespace(index=0, logprobs=said)])
    client = SimpleNamespace(completions=SimpleNamespace(create=lambda **_: reply))
    with pytest.raises(ModelError, match=f"log-probability {value}"):
        ServerScorer("m", client=client).score([("a", " b")])
