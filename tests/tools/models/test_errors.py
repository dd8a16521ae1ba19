"""Which faults are tried again."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from ragweave.errors import ModelError, PromptTooLongError, RunTimeoutError, UsageError
from ragweave.tools.models import is_transient, status_of
from ragweave.tools.models.errors import said_by_server

REQUEST: Any = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def status_error(kind: Any, status: int) -> openai.APIStatusError:
    response = httpx.Response(status, request=REQUEST)
    made: openai.APIStatusError = kind("said no", response=response, body=None)
    return made


def unread(body: object) -> TypeError:
    """Return what LangChain's client raises where the openai client fails on a reply."""
    error: Any = TypeError("'NoneType' object is not iterable")
    error.response = httpx.Response(200, request=REQUEST, json=body)
    failed: TypeError = error
    return failed


PASSING = [
    ValueError({"message": "slow down", "code": 429}),
    unread({"error": {"message": "overloaded", "code": 502}}),
    status_error(openai.RateLimitError, 429),
    status_error(openai.ConflictError, 409),
    status_error(openai.APIStatusError, 408),
    status_error(openai.APIStatusError, 425),
    status_error(openai.InternalServerError, 500),
    status_error(openai.InternalServerError, 503),
    openai.APIConnectionError(request=REQUEST),
    openai.APITimeoutError(request=REQUEST),
    httpx.ConnectError("refused"),
    httpx.ReadTimeout("slow"),
    httpx.RemoteProtocolError("peer closed connection"),
    httpx.HTTPStatusError("x", request=REQUEST, response=httpx.Response(502, request=REQUEST)),
    ConnectionResetError("reset"),
    ConnectionRefusedError("refused"),
    BrokenPipeError("pipe"),
    TimeoutError("late"),
    TimeoutError(),
]

LASTING = [
    ValueError({"message": "no such model", "code": 404}),
    ValueError({"message": "odd", "code": "429 or so"}),
    unread({"error": "down"}),
    unread(["no object"]),
    status_error(openai.BadRequestError, 400),
    status_error(openai.AuthenticationError, 401),
    status_error(openai.PermissionDeniedError, 403),
    status_error(openai.NotFoundError, 404),
    status_error(openai.UnprocessableEntityError, 422),
    httpx.HTTPStatusError("x", request=REQUEST, response=httpx.Response(401, request=REQUEST)),
    httpx.InvalidURL("bad"),
    ValueError("bad"),
    FileNotFoundError("model.gguf"),
    UsageError("k"),
    ModelError("no key"),
    RunTimeoutError("late"),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("fault", PASSING, ids=repr)
def test_transient(fault: BaseException) -> None:
    assert is_transient(fault)


@pytest.mark.parametrize("fault", LASTING, ids=repr)
def test_lasting(fault: BaseException) -> None:
    assert not is_transient(fault)


def raised(fault: Exception, cause: Exception) -> Exception:
    try:
        raise fault from cause
    except type(fault) as caught:
        return caught


def test_the_cause_counts() -> None:
    assert is_transient(raised(RuntimeError("wrapped"), httpx.ConnectError("refused")))
    assert is_transient(raised(RuntimeError("wrapped"), status_error(openai.RateLimitError, 429)))
    assert not is_transient(raised(RuntimeError("wrapped"), ValueError("bad")))


def test_our_own_errors_are_final_whatever_their_cause() -> None:
    assert not is_transient(raised(ModelError("gone"), httpx.ConnectError("refused")))


def test_a_lasting_status_is_final_whatever_came_before() -> None:
    refused = status_error(openai.BadRequestError, 400)
    assert not is_transient(raised(refused, TimeoutError("the first try")))


def test_a_loop_of_causes_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one
    assert not is_transient(one)


def test_status_of() -> None:
    assert status_of(status_error(openai.RateLimitError, 429)) == 429
    assert status_of(raised(RuntimeError(), status_error(openai.BadRequestError, 400))) == 400
    assert status_of(ValueError("bad")) is None
    assert status_of(ValueError({"message": "no such model", "code": 404})) == 404
    assert status_of(unread({"choices": None})) == 200


def refused(text: str, status: int = 400) -> openai.APIStatusError:
    response = httpx.Response(status, request=REQUEST)
    return openai.APIStatusError(text, response=response, body=None)


@pytest.mark.parametrize(
    "text",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens",
        "You passed 5000 input tokens. However, the model's context length is only 4096 tokens",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        "Input length (5000 tokens) exceeds the maximum allowed length (4096 tokens).",
        "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "Requested token count exceeds the model's maximum context length of 4096 tokens.",
        "Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
    ],
)
def test_a_prompt_that_is_too_long_is_known_by_the_servers_text(text: str) -> None:
    for error in (refused(text), refused(text, 413), ValueError({"message": text, "code": 400})):
        said = said_by_server(error)
        assert isinstance(said, PromptTooLongError)
        assert "prompt_tokens" in str(said) and text[:30] in str(said)
    assert said_by_server(refused(text, 500)) is None


@pytest.mark.parametrize(
    "error",
    [
        refused("max_tokens is too large: 100000. This model supports at most 16384"),
        refused("Request too large for model on tokens per minute", 413),
        refused("'name' exceeds the maximum allowed length of 64"),
        PromptTooLongError("the model's context length"),
        unread({"error": {"message": "overloaded", "code": 502}}),
        TypeError("'NoneType' object is not iterable"),
    ],
)
def test_other_errors_say_it_themselves(error: Exception) -> None:
    assert said_by_server(error) is None


def test_a_reply_that_a_client_cannot_read_is_a_models_error() -> None:
    assert isinstance(said_by_server(unread({"choices": None})), ModelError)
    told = said_by_server(unread({"error": {"message": "no provider", "code": 404}}))
    assert isinstance(told, ModelError) and "no provider" in str(told)
