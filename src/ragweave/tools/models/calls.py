"""What a call may ask of a chat model, and what the errors of its server mean.

Nothing is sent to find out. A model's LangChain `profile` says what it can do, and what its server
refuses is remembered for as long as the model object lives.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langchain_core.exceptions import ModelError
from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import RunnableBinding
from langchain_core.tools import BaseTool
from pydantic import ValidationError

from ragweave.errors import RagweaveError
from ragweave.tools.models.roles import bound_settings, unbound

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
class _Learned:
    """What a model's server refused."""

    constraint: Constraint | None = None
    refused: set[str] = field(default_factory=set)


def _known(model: Any) -> _Learned:
    """Return what is stored with the model object, and so with its copies."""
    known: _Learned = vars(unbound(model)).setdefault("_ragweave_learned", _Learned())
    return known


def profile_of(model: Any) -> Mapping[str, Any]:
    """Return what LangChain knows about a model, such as its context size."""
    return getattr(unbound(model), "profile", None) or {}


def takes(model: Any, setting: str) -> bool:
    """Say whether a setting may be sent to a model.

    Not if its server refused it, nor a temperature, a nucleus or stop sequences if its profile says that
    it samples in one way only, as OpenAI's reasoning models do.
    """
    fixed = profile_of(model).get("temperature") is False and setting in ("temperature", "top_p", "stop")
    return not fixed and setting not in _known(model).refused


def continues(model: Any) -> bool:
    """Say whether a model goes on with a turn of its own, given as the last message."""
    return bool(getattr(unbound(model), "continues_turn", False)) and takes(model, _CONTINUING)


def reports_logprobs(model: Any) -> bool:
    """Say whether a model may report the log-probabilities of its answer's first token."""
    knows = "logprobs" in getattr(type(unbound(model)), "model_fields", {})
    return knows and takes(model, "logprobs") and not profile_of(model).get("reasoning_output")


def is_sync(model: Any) -> bool:
    """Say whether a chat model has no asynchronous calls of its own: LangChain then runs it in a thread."""
    kind, base = type(unbound(model)), BaseChatModel
    return issubclass(kind, base) and kind._agenerate is base._agenerate and kind._astream is base._astream


def with_settings(model: Any, settings: Mapping[str, Any]) -> Any:
    """Return a copy of a model with other settings, of those that it has and takes.

    Not `bind`: `with_structured_output` drops what is bound, and a client's field has the client's own
    name for the setting. Log-probabilities are bound to a model that has no such field: a step that asks
    for them can't do without.
    """
    if isinstance(model, RunnableBinding):
        bound = {name: one for name, one in settings.items() if name not in model.kwargs}
        return model.model_copy(update={"bound": with_settings(model.bound, bound)})
    if not isinstance(model, BaseChatModel):
        return model
    update, bound = {}, {}
    for name in [one for one in settings if takes(model, one)]:
        own = next((one for one in (name, *_ALIASES.get(name, ())) if one in type(model).model_fields), None)
        if own:
            update[own] = settings[name]
        elif name in _LOGPROBS:
            bound[name] = settings[name]
    if update:
        model = model.model_copy(update=update)
        vars(model).pop("_serialized", None)  # LangChain's cached description, which would keep the old settings
    return model.bind(**bound) if bound else model


def with_tools(model: Any, tools: Sequence[BaseTool]) -> Any:
    """Return a model that may call tools, with what it is bound to."""
    if isinstance(model, RunnableBinding):
        return model.model_copy(update={"bound": with_tools(model.bound, tools)})
    return model.bind_tools(tools)


def reply_limit(model: Any) -> int | None:
    """Return the longest reply, in tokens, that the caller gave a model; None: no limit."""
    target = unbound(model)
    given: set[str] = getattr(target, "model_fields_set", set())
    names = ("max_tokens", *_ALIASES["max_tokens"])
    own = {one: getattr(target, one, None) for one in names if one in given}
    limits = [table.get(one) for table in (*bound_settings(model), own) for one in names]
    return min((one for one in limits if isinstance(one, int) and one > 0), default=None)


def own_stops(model: Any) -> list[str]:
    """Return the stop sequences that a model was made or bound with: those of a call would replace them."""
    target = unbound(model)
    own = getattr(target, "stop", None) or getattr(target, "stop_sequences", None)
    lists = [*(table.get("stop") for table in bound_settings(model)), own]
    return [text for some in lists if some for text in ([some] if isinstance(some, str) else some)]


def constraint_of(model: Any) -> Constraint:
    """Return how a model can be constrained to a form: as learned, else by its profile, else by its class."""
    if learned := _known(model).constraint:
        return learned
    target, profile = unbound(model), profile_of(model)
    if known := [profile[name] for name in ("structured_output", "tool_calling") if name in profile]:
        return "bounded" if any(known) else "none"
    can = isinstance(target, BaseChatModel) and (
        type(target).with_structured_output is not BaseChatModel.with_structured_output
        or type(target).bind_tools is not BaseChatModel.bind_tools
    )
    return "bounded" if can else "none"


def learn_constraint(model: Any, constraint: Constraint) -> None:
    """Remember how a model can be constrained to a form."""
    _known(model).constraint = constraint


def learn_refusal(model: Any, error: Exception, sent: Collection[str]) -> str:
    """Remember which of the settings that were sent an error names, and return it; "" for none."""
    if status_of(error) not in (400, 422):
        return ""
    said = str(error)
    for name in _REFUSABLE:
        if name in sent and any(re.search(rf"\b{one}\b", said) for one in (name, *_ALIASES.get(name, ()))):
            _known(model).refused.add(name)
            return name
    return ""


def refuses_form(error: Exception) -> bool:
    """Say whether an error may mean that a server takes no such form."""
    return isinstance(error, NotImplementedError) or status_of(error) in (400, 404, 415, 422, 501)


def is_unparsed(error: Exception) -> bool:
    """Say whether a client raised because a reply did not fill its form, as OpenAI's does."""
    named = ("LengthFinishReasonError", "ContentFilterFinishReasonError")
    return isinstance(error, ValidationError) or type(error).__name__ in named


# ---- errors

_TRANSIENT_STATUS = (408, 409, 425, 429)
"""HTTP statuses below 500 after which a retry may succeed."""
_TRANSIENT_NAMES = {"TransportError", "APIConnectionError", "APITimeoutError", "ConnectionError", "TimeoutError"}
"""httpx's, OpenAI's and Python's: by name, so that no client is imported."""


def is_transient(error: BaseException) -> bool:
    """Return whether a call that failed with `error` is worth retrying.

    Transient: HTTP 408, 409, 425, 429 and 5xx, timeouts, and dropped or refused connections, of any client library.
    Never: other 4xx such as 400 and 401, and every error that ragweave itself raises. LangChain's own errors say it
    themselves.
    """
    if isinstance(error, RagweaveError):
        return False
    if isinstance(error, ModelError):
        return error.is_retryable
    if status := status_of(error):
        return status in _TRANSIENT_STATUS or status >= 500
    return any(kind.__name__ in _TRANSIENT_NAMES for link in _chain(error) for kind in type(link).__mro__)


def is_refused(error: BaseException) -> bool:
    """Return whether there was no server at the address; clients have tried again, and it stays so."""
    return any(type(link).__name__ in ("ConnectError", "ConnectionRefusedError") for link in _chain(error))


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of a failure that `error` or its cause carries, if any.

    Some gateways (OpenRouter) report an error in a reply of status 200; its code counts then.
    """
    found = (
        status
        for link in _chain(error)
        for status in (
            getattr(link, "status_code", None),
            getattr(getattr(link, "response", None), "status_code", None),
            _reported(link).get("code"),
        )
    )
    return next((one for one in found if type(one) is int and 400 <= one < 600), None)


def server_text(error: BaseException) -> str:
    """Return the server's message on one line, or the system's if none was reached, or else the error's own."""
    said = (one for link in _chain(error) if (one := _reported(link).get("message")))
    lost = (link for link in _chain(error) if isinstance(link, OSError) and link.errno and is_transient(error))
    return " ".join(str(next(said, None) or next(lost, error)).split()) or type(error).__name__


def _reported(error: BaseException) -> Mapping[str, Any]:
    """Return the error object that a server sent as JSON; empty if it sent none.

    The openai client stores it; LangChain's raises it unchanged where the reply's status was 200.
    """
    given = error.args[0] if isinstance(error, ValueError) and error.args else getattr(error, "body", None)
    return given if isinstance(given, Mapping) else {}


def _chain(error: BaseException | None) -> list[BaseException]:
    """Return an error and its causes."""
    links: list[BaseException] = []
    while error is not None and error not in links:
        links.append(error)
        error = error.__cause__ or error.__context__
    return links
