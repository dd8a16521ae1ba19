"""Which faults are tried again."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from ragweave.errors import ModelError, PromptTooLongError, RunTimeoutError, UsageError
from ragweave.tools.models import is_transient, status_of
from ragweave.tools.models.calls import is_overflow, retry_after

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
    RuntimeError("Event loop is closed"),
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
    RuntimeError("the loop is closed"),
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


# -- prompts that are too long -----------------------------------------------------------------

TOO_LONG = {
    "OpenAI": "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens. Please "
    "reduce the length of the messages.",
    "vLLM": "'max_tokens' or 'max_completion_tokens' is too large: 2048. This model's maximum context length is 4096 tokens "
    "and your request has 3000 input tokens (2048 > 4096 - 3000).",
    "old vLLM": "max_tokens must be at least 1, got -186.",
    "llama-server": "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "LM Studio": "Trying to keep the first 14538 tokens when context the overflows. However, the model is loaded with "
    "context length of only 2048 tokens, which is not enough.",
    "TGI": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 64 "
    "`max_new_tokens`",
    "Anthropic": "prompt is too long: 208310 tokens > 200000 maximum",
    "Anthropic's reply": "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000",
    "Gemini": "The input token count (1200293) exceeds the maximum number of tokens allowed (1048576).",
    "LiteLLM": "litellm.ContextWindowExceededError: litellm.BadRequestError: This prompt does not fit",
    "Mistral": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "Bedrock": "Input is too long for requested model.",
}
OTHERWISE_REFUSED = [
    (400, "max_tokens is too large: 100000. This model supports at most 16384 completion tokens."),
    (400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
    (400, "'maxLength' is not permitted"),
    (400, "Input validation error: `temperature` must be strictly positive"),
    (429, "Rate limit reached for tokens per min (TPM): Limit 10000, Used 9000, Requested 2000. Try again in 6s."),
    (429, "This request would exceed your organization's rate limit of 40,000 input tokens per minute"),
    (429, "Too many tokens, please wait before trying again."),
    (403, "Your plan has no access to the 1M context window"),
]


@pytest.mark.parametrize("server", TOO_LONG)
def test_servers_say_in_their_own_words_that_a_prompt_is_too_long(server: str) -> None:
    body = {"message": TOO_LONG[server], "code": 400}
    response = httpx.Response(400, request=REQUEST)
    assert is_overflow(openai.BadRequestError(f"Error code: 400 - {body}", response=response, body=body))
    assert is_overflow(ValueError(body))


@pytest.mark.parametrize(("status", "message"), OTHERWISE_REFUSED)
def test_other_refusals_are_not_about_the_prompts_length(status: int, message: str) -> None:
    response = httpx.Response(status, request=REQUEST)
    assert not is_overflow(openai.APIStatusError(message, response=response, body={"message": message}))


def test_our_own_errors_about_length() -> None:
    assert is_overflow(PromptTooLongError("the prompt has 9000 tokens"))
    assert not is_overflow(UsageError("the context length must be positive"))
    limited = httpx.Response(429, request=REQUEST)
    text = "Request too large for model on tokens per minute (TPM): Limit 6000, Requested 9000"
    assert is_overflow(openai.RateLimitError(text, response=limited, body=None))


# -- how long to wait --------------------------------------------------------------------------


def limited(header: str) -> openai.RateLimitError:
    response = httpx.Response(429, request=REQUEST, headers={"Retry-After": header})
    return openai.RateLimitError("slow down", response=response, body=None)


def test_the_pause_that_a_server_asks_for() -> None:
    assert retry_after(limited("7")) == 7
    assert retry_after(raised(RuntimeError("wrapped"), limited("1.5"))) == 1.5
    assert retry_after(limited("Wed, 21 Oct 2015 07:28:00 GMT")) == 0
    assert retry_after(limited("Wed, 21 Oct 2015 07:28:00")) == 0  # without a time zone
    assert retry_after(limited("soon")) is None
    assert retry_after(status_error(openai.RateLimitError, 429)) is None


def test_a_server_that_asks_for_an_hour_is_not_tried_again() -> None:
    assert is_transient(limited("20"))
    assert not is_transient(limited("3600"))
