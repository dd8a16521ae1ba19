"""The scripted server speaks the protocol that a real client expects, and tests reach nothing else."""

from __future__ import annotations

import socket

import pytest
import pytest_socket
from langchain_openai import ChatOpenAI

from tests.openai_server import OpenAIServer, Reply


@pytest.mark.loopback
def test_a_client_reads_the_text_the_usage_and_the_log_probabilities() -> None:
    with OpenAIServer([Reply("It is Paris.", usage=(7, 3), logprob=-1.5)]) as server:
        client = ChatOpenAI(model="m", base_url=server.base_url, api_key="none", max_retries=0, logprobs=True)
        message = client.invoke("Where is the Louvre?")
        chunks = list(client.stream("Where is the Louvre?", stream_usage=True))
    assert server.requests[0].body["messages"][0]["content"] == "Where is the Louvre?"
    assert message.text == "It is Paris."
    assert [chunk.text for chunk in chunks if chunk.text] == ["It", " is", " Paris."]
    for usage in (message.usage_metadata, *(chunk.usage_metadata for chunk in chunks if chunk.usage_metadata)):
        assert usage is not None
        assert (usage["input_tokens"], usage["output_tokens"]) == (7, 3)
    assert {token["logprob"] for token in message.response_metadata["logprobs"]["content"]} == {-1.5}


@pytest.mark.loopback
@pytest.mark.filterwarnings("ignore:A test tried to use socket:UserWarning")
def test_nothing_but_loopback_is_reached() -> None:
    with pytest.raises(pytest_socket.SocketConnectBlockedError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
