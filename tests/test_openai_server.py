"""The scripted server speaks the protocol that real clients expect."""

from __future__ import annotations

import json
import socket
from typing import Any

import httpx
import openai
import pytest
import pytest_socket
from langchain_openai import ChatOpenAI

from tests.openai_server import Answer, BrokenJson, Drop, Hang, HttpFault, OpenAIServer, Reply

pytestmark = pytest.mark.loopback


def client(server: OpenAIServer, **settings: Any) -> ChatOpenAI:
    own = {"model": "m", "base_url": server.base_url, "api_key": "none", "max_retries": 0}
    return ChatOpenAI(**{**own, **settings})


def test_reply_and_usage() -> None:
    with OpenAIServer([Reply("It is Paris.", usage=(7, 3))]) as server:
        message = client(server).invoke("Where is the Louvre?")
    assert message.text == "It is Paris."
    assert message.usage_metadata is not None
    assert (message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]) == (
        7,
        3,
    )
    assert server.requests[0].body["messages"][0]["content"] == "Where is the Louvre?"


def test_stream_gives_tokens_and_usage() -> None:
    with OpenAIServer(["It is Paris."]) as server:
        chunks = list(client(server, stream_usage=True).stream("Where?"))
    assert [one.text for one in chunks if one.text] == ["It", " is", " Paris."]
    assert [one.usage_metadata["output_tokens"] for one in chunks if one.usage_metadata] == [3]


def test_a_connection_takes_as_many_requests_as_said() -> None:
    asked = {"model": "m", "messages": []}
    with OpenAIServer(["Rome"], per_connection=2) as server, httpx.Client() as web:
        path = f"{server.base_url}/chat/completions"
        heads = [web.post(path, json=asked).headers["connection"] for _ in range(3)]
    assert heads == ["keep-alive", "close", "keep-alive"]


async def test_async_client() -> None:
    with OpenAIServer(["Rome"]) as server:
        assert (await client(server).ainvoke("Where?")).text == "Rome"


def test_logprobs_and_missing_usage() -> None:
    with OpenAIServer([Reply("Pa ris", usage=None, logprob=-1.5)]) as server:
        message = client(server, logprobs=True).invoke("Where?")
    content = message.response_metadata["logprobs"]["content"]
    assert [(one["token"], one["logprob"]) for one in content] == [("Pa", -1.5), (" ris", -1.5)]
    assert message.usage_metadata is None


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (HttpFault(429, retry_after=0.5), openai.RateLimitError),
        (HttpFault(400), openai.BadRequestError),
        (HttpFault(401), openai.AuthenticationError),
        (HttpFault(500), openai.InternalServerError),
        (HttpFault(503), openai.InternalServerError),
        (Drop(), openai.APIConnectionError),
        (Hang(), openai.APITimeoutError),
    ],
)
def test_faults(fault: Answer, kind: type[Exception]) -> None:
    with OpenAIServer([fault]) as server:
        with pytest.raises(kind) as caught:
            client(server, timeout=0.3).invoke("?")
        assert server.count == 1
    if isinstance(fault, HttpFault) and fault.retry_after:
        assert caught.value.response.headers["retry-after"] == "0.5"  # type: ignore[attr-defined]


def test_dropped_mid_stream() -> None:
    with OpenAIServer([Drop(after=2)]) as server:
        stream = client(server).stream("?")
        with pytest.raises(openai.APIConnectionError):
            list(stream)


def test_broken_json() -> None:
    with OpenAIServer([BrokenJson()]) as server, pytest.raises(json.JSONDecodeError):
        client(server).invoke("?")


def test_key() -> None:
    with OpenAIServer(["Rome"], key="right") as server:
        assert client(server, api_key="right").invoke("?").text == "Rome"
        with pytest.raises(openai.AuthenticationError):
            client(server, api_key="wrong").invoke("?")


def test_models_route() -> None:
    with OpenAIServer() as server:
        assert httpx.get(f"{server.base_url}/models").json()["data"][0]["id"] == "scripted"


@pytest.mark.filterwarnings("ignore:A test tried to use socket:UserWarning")
def test_nothing_but_loopback_is_reached() -> None:
    with pytest.raises(pytest_socket.SocketConnectBlockedError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
