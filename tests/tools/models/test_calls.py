"""Which faults are tried again."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from ragweave.errors import ModelError, RunTimeoutError, UsageError
from ragweave.tools.models import is_transient, status_of

REQUEST: Any = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")


def status_error(kind: Any, status: int) -> openai.APIStatusError:
    response = httpx.Response(status, request=REQUEST)
    error: openai.APIStatusError = kind("said no", response=response, body=None)
    return error


PASSING = [
    ValueError({"message": "slow down", "code": 429}),
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
    first, second = ValueError("one"), ValueError("two")
    first.__cause__, second.__cause__ = second, first
    assert not is_transient(first)


def test_status_of() -> None:
    assert status_of(status_error(openai.RateLimitError, 429)) == 429
    assert status_of(raised(RuntimeError(), status_error(openai.BadRequestError, 400))) == 400
    assert status_of(ValueError("bad")) is None
    assert status_of(ValueError({"message": "no such model", "code": 404})) == 404
