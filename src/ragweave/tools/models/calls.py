"""What a call may ask of a chat model, and what the errors of its server mean.

Nothing is sent to find out. A model's LangChain `profile` says what it can do, and what its server
refuses is remembered for as long as the model object lives.
"""

import re
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from langchain_core.caches import BaseCache
from langchain_core.exceptions import ContextOverflowError, ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableParallel, RunnableSequence
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.tools import BaseTool
from pydantic import BaseModel, ValidationError

from ragweave.errors import PromptTooLongError, RagweaveError
from ragweave.tools.models.roles import models_in, name_of, with_each

Constraint = Literal["bounded", "unbounded", "none"]
"""How replies can be constrained to a form: with its length limits, without them, or not at all."""

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "num_predict"),
    "seed": ("random_seed",),
    "continue_final_message": ("add_generation_prompt",),
}
"""What some clients call a setting."""

_LOGPROBS = ("logprobs", "top_logprobs")
_CONTINUING = "continue_final_message"
_REFUSABLE = ("temperature", "top_p", "stop", "seed", "max_tokens", *_LOGPROBS, _CONTINUING)
"""The settings that a call can do without."""


@dataclass
class Learned:
    """What is remembered of a model's server."""

    constraint: Constraint | None = None
    refused: set[str] = field(default_factory=set)
    say_ending: set[tuple[str, str]] = field(default_factory=set)
    """The models, of those with fallbacks, whose streams say how a reply ended: once one did, all do."""
    next_call: float = 0.0
    """When it may be called again (`time.monotonic`), as it said in `Retry-After`."""


class Endpoint:
    """A chat model as a call sees it: what is inside its bindings, what they set, and what its server takes."""

    def __init__(self, model: Any) -> None:
        """Unwrap a model from its bindings, retries and fallbacks."""
        self.model = model
        self.client, self._bound = next(models_in(model))
        """The chat model itself; of one with fallbacks, the first."""
        self.profile: Mapping[str, Any] = getattr(self.client, "profile", None) or {}
        """What LangChain knows about the model, such as its context size."""

    @property
    def learned(self) -> Learned:
        """What is stored with the model object, and so with its copies."""
        learned: Learned = vars(self.client).setdefault("_ragweave_learned", Learned())
        return learned

    def named(self, name: str) -> Any:
        """Return the model inside that has a name; the first if there is none."""
        inside = (model for model, _ in models_in(self.model))
        return next((model for model in inside if name and name == name_of(model)), self.client)

    def takes(self, setting: str) -> bool:
        """Say whether a setting may be sent.

        Not if the server refused it, nor a temperature, a nucleus or stop sequences if the profile says that the
        model samples in one way only, as OpenAI's reasoning models do.
        """
        fixed = self.profile.get("temperature") is False and setting in ("temperature", "top_p", "stop")
        return not fixed and setting not in self.learned.refused

    @property
    def continues(self) -> bool:
        """Whether the model goes on with a turn of its own, given as the last message."""
        return bool(getattr(self.client, "continues_turn", False)) and self.takes(_CONTINUING)

    @property
    def reports_logprobs(self) -> bool:
        """Whether the model may report the log-probabilities of its answer's first token."""
        has_field = "logprobs" in getattr(type(self.client), "model_fields", {})
        return has_field and self.takes("logprobs") and not self.profile.get("reasoning_output")

    @property
    def is_sync(self) -> bool:
        """Whether a call is all synchronous code: the model has no asynchronous calls of its own, and no cache to await."""
        kind, base = type(self.client), BaseChatModel
        is_cached = isinstance(getattr(self.client, "cache", None), BaseCache)
        plain = issubclass(kind, base) and kind._agenerate is base._agenerate and kind._astream is base._astream
        return plain and not is_cached

    def is_free(self, reply: BaseMessage) -> bool:
        """Say whether a reply is out of a cache, as LangChain states by its cost; an evaluation's counts as new."""
        usage: Any = getattr(reply, "usage_metadata", None) or {}
        return usage.get("total_cost") == 0 and not getattr(getattr(self.client, "cache", None), "replays", False)

    @property
    def own_stops(self) -> list[str]:
        """The stop sequences that the model was made or bound with: those of a call would replace them."""
        own = getattr(self.client, "stop", None) or getattr(self.client, "stop_sequences", None)
        lists = [self._bound.get("stop"), own]
        return [text for stops in lists if stops for text in ([stops] if isinstance(stops, str) else stops)]

    @property
    def constraint(self) -> Constraint:
        """How the model can be constrained to a form: as learned, else by its profile, else by its class."""
        if learned := self.learned.constraint:
            return learned
        if stated := [self.profile[name] for name in ("structured_output", "tool_calling") if name in self.profile]:
            return "bounded" if any(stated) else "none"
        kind, base = type(self.client), BaseChatModel
        can = issubclass(kind, base) and (
            kind.with_structured_output is not base.with_structured_output or kind.bind_tools is not base.bind_tools
        )
        return "bounded" if can else "none"

    def learn_refusal(self, error: Exception, sent: Collection[str]) -> str:
        """Return which of the settings that were sent an error names, and remember it; "" for none.

        A reply limit that is too large for this call is not remembered.
        """
        if status_of(error) not in (400, 422):
            return ""
        text = str(error)
        for name in _REFUSABLE:
            if name in sent and any(re.search(rf"\b{word}\b", text) for word in (name, *_ALIASES.get(name, ()))):
                if name != "max_tokens" or not (_TOO_LARGE.search(text) or is_overflow(error)):
                    self.learned.refused.add(name)
                return name
        return ""

    def learn_pause(self, error: BaseException) -> None:
        """Remember how long the server asks its clients to wait."""
        if pause := retry_after(error):
            self.learned.next_call = max(self.learned.next_call, time.monotonic() + min(pause, MAX_PAUSE))

    def pause(self) -> float:
        """Return the seconds until the server may be called again, as it asked; 0 at most times."""
        return max(self.learned.next_call - time.monotonic(), 0.0)

    def with_settings(self, settings: Mapping[str, Any]) -> Any:
        """Return a copy of the model with other settings, of those that it has and takes; what is bound stays.

        Not `bind`: a client's field has the client's own name for the setting. Log-probabilities are bound to a
        model that has no such field: a step that asks for them can't do without. The caller's own reply limit
        is not raised.
        """
        taken = {name: value for name, value in settings.items() if self.takes(name)}
        return with_each(self.model, lambda model, bound: _with_settings(model, taken, bound))


def _with_settings(model: Any, settings: Mapping[str, Any], bound: Mapping[str, Any]) -> Any:
    if not isinstance(model, BaseChatModel):
        return model
    update, more = {}, {}
    for name, value in settings.items():
        names = (name, *_ALIASES.get(name, ()))
        if bound.keys() & names:
            continue
        if field_name := next((own for own in names if own in type(model).model_fields), None):
            own = getattr(model, field_name) if name == "max_tokens" and field_name in model.model_fields_set else None
            update[field_name] = min(own, value) if own and own > 0 else value
        elif name in _LOGPROBS:
            more[name] = value
    if update:
        model = model.model_copy(update=update)
        vars(model).pop("_serialized", None)  # LangChain's cached description, which would keep the old settings
    return model.bind(**more) if more else model


def with_tools(model: Any, tools: Sequence[BaseTool]) -> Any:
    """Return a model that may call tools, with what it is bound to."""
    return with_each(model, lambda inside, _: inside.bind_tools(tools))


def with_form(model: Any, form: type[BaseModel]) -> Any:
    """Return a model whose replies fill a form, with what it is bound to, which LangChain's chain would not pass on."""

    def filling(inside: Any, bound: Mapping[str, Any]) -> Any:
        chain = inside.with_structured_output(form, include_raw=True)
        return _bound_in(chain, bound) if bound else chain

    return with_each(model, filling)


def _bound_in(chain: Any, settings: Mapping[str, Any]) -> Any:
    """Return a chain with settings bound to the chat model that it begins with."""
    if isinstance(chain, BaseChatModel):
        return chain.bind(**settings)
    if isinstance(chain, RunnableParallel):
        steps = {name: _bound_in(step, settings) for name, step in chain.steps__.items()}
        return chain.model_copy(update={"steps__": steps})
    if isinstance(chain, RunnableSequence):
        return chain.model_copy(update={"first": _bound_in(chain.first, settings)})
    if isinstance(chain, RunnableBindingBase):
        return chain.model_copy(update={"bound": _bound_in(chain.bound, settings)})
    return chain


def refuses_form(error: Exception) -> bool:
    """Say whether an error may mean that a server takes no such form."""
    return isinstance(error, NotImplementedError) or status_of(error) in (400, 404, 415, 422, 501)


def is_unparsed(error: Exception) -> bool:
    """Say whether a client raised because a reply did not fill its form, as OpenAI's does."""
    names = ("LengthFinishReasonError", "ContentFilterFinishReasonError")
    return isinstance(error, ValidationError) or type(error).__name__ in names


# ---- errors

_TRANSIENT_STATUS = (408, 409, 425, 429)
"""HTTP statuses below 500 after which a retry may succeed."""
_TRANSIENT_NAMES = {"TransportError", "APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError"}
"""httpx's, OpenAI's and Python's: by name, so that no client is imported."""
_STATUSES = {"server_error": 500, "rate_limit_exceeded": 429}
"""The statuses that the Responses API has words for."""
MAX_PAUSE = 60.0
"""Seconds: a server that asks for a longer pause is not tried again."""
_TOO_LARGE = re.compile(r"too large|exceed|at most|maximum|must be <=", re.I)
"""How a server says that the reply limit does not suit this call."""
_OVERFLOW = re.compile(
    r"context[ _-]?(?:length|window|size|limit)|context the overflows|maximum (?:model|prompt) length"
    r"|\b(?:prompt|input|messages?|request)\b[^.]{0,40}\btoo (?:long|large)|\binput (?:tokens?|length)\b[^.]{0,60}exceed"
    r"|`?inputs`? (?:tokens|must have less than)|max_tokens must be at least 1, got -|maximum number of tokens allowed",
    re.I,
)
"""How OpenAI, Anthropic, Bedrock, Gemini, Groq, LiteLLM, llama-server, LM Studio, Mistral, Ollama, TGI and vLLM say that a
prompt does not fit."""


def is_transient(error: BaseException) -> bool:
    """Return whether a call that failed with `error` is worth retrying.

    Transient: HTTP 408, 409, 425, 429 and 5xx, timeouts, dropped or refused connections, of any client library, and
    connections of an event loop that has ended. Never: other 4xx such as 400 and 401, a prompt that is too long, a server
    that asks for a pause of more than a minute, and every error that ragweave itself raises. LangChain's own errors say
    it themselves.
    """
    if isinstance(error, RagweaveError) or is_overflow(error) or (retry_after(error) or 0) > MAX_PAUSE:
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    if status := status_of(error):
        return status in _TRANSIENT_STATUS or status >= 500
    names = (kind.__name__ for link in _chain(error) for kind in type(link).__mro__)
    return any(name in _TRANSIENT_NAMES for name in names) or "Event loop is closed" in map(str, _chain(error))


def is_overflow(error: BaseException) -> bool:
    """Return whether a model or its server refused a prompt because it is too long."""
    if isinstance(error, RagweaveError | ContextOverflowError):
        return isinstance(error, PromptTooLongError | ContextOverflowError)
    status, text = status_of(error), " ".join(map(str, _chain(error)))
    if status == 429:  # Groq and OpenAI: more tokens than a minute allows
        return "Request too large" in text
    return status not in (401, 403, 404) and _OVERFLOW.search(text) is not None


def is_empty_stream(error: BaseException) -> bool:
    """Return whether LangChain raised because a stream ended without a piece."""
    return type(error) in (ValueError, RuntimeError) and str(error).startswith(_EMPTY_STREAM)


_EMPTY_STREAM = ("No generation", "v2 stream finished without")


def retry_after(error: BaseException) -> float | None:
    """Return the seconds that a server asks its clients to wait, in its `Retry-After` header; None if it says nothing."""
    headers = (getattr(getattr(link, "response", None), "headers", None) for link in _chain(error))
    values = (headers.get("retry-after") for headers in headers if headers is not None)
    value = str(next(filter(None, values), ""))
    with suppress(ValueError):
        return max(float(value), 0.0)
    with suppress(ValueError):
        moment = parsedate_to_datetime(value)
        return max((moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds(), 0.0)
    return None


def is_refused(error: BaseException) -> bool:
    """Return whether there was no server at the address; clients have tried again, and it stays so."""
    return any(type(link).__name__ in ("ConnectError", "ConnectionRefusedError") for link in _chain(error))


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a failure that `error` or its cause carries, if any.

    Some gateways (OpenRouter) report an error in a reply of status 200; its code counts then.
    """
    statuses = (status for link in _chain(error) for status in _statuses(link))
    return next((status for status in statuses if type(status) is int and 400 <= status < 600), None)


def _statuses(error: BaseException) -> tuple[Any, ...]:
    """Return what an error says of its status, wherever clients put it."""
    code = _reported(error).get("code")
    response = getattr(error, "response", None)
    return getattr(error, "status_code", None), getattr(response, "status_code", None), _STATUSES.get(str(code), code)


def code_of(error: BaseException) -> str:
    """Return the code that a server gave its error, such as `content_filter`; "" if it gave none."""
    if any("content filter being triggered" in str(link) for link in _chain(error)):
        return "content_filter"  # AzureChatOpenAI raises a bare ValueError
    return next((str(code) for link in _chain(error) if (code := _reported(link).get("code"))), "")


def server_text(error: BaseException) -> str:
    """Return the server's message on one line, or the system's if none was reached, or else the error's own."""
    messages = (text for link in _chain(error) if (text := _reported(link).get("message")))
    faults = (link for link in _chain(error) if isinstance(link, OSError) and link.errno and is_transient(error))
    return " ".join(str(next(messages, None) or next(faults, error)).split()) or type(error).__name__


def _reported(error: BaseException) -> Mapping[str, Any]:
    """Return the error object that a server sent as JSON; empty if it sent none.

    The openai client stores it; LangChain's raises it unchanged where the reply's status was 200.
    """
    given = error.args[0] if isinstance(error, ValueError) and error.args else getattr(error, "body", None)
    given = given.model_dump() if isinstance(given, BaseModel) else given
    return given if isinstance(given, Mapping) else {}


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and its causes."""
    links: list[BaseException] = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links
