"""The chat models of a graph by role, and their reply limits.

A reply is limited to the lower of a step's own limit and the one that the model was made with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from langchain_core.language_models import BaseChatModel, BaseLLM, LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langgraph.types import RetryPolicy

from ragweave.errors import UsageError
from ragweave.tools.bindings import bound_settings, unbound
from ragweave.tools.models.errors import is_transient

ChatModel: TypeAlias = Runnable[LanguageModelInput, BaseMessage]
"""A LangChain chat model, or a binding of one."""


def checked_chat(what: str, model: ChatModel) -> ChatModel:
    """Return a model that replies with messages, as far as can be told before it is asked.

    Args:
        what: What a message calls it.
        model: The model.

    Raises:
        UsageError: It completes texts.
    """
    target = unbound(model)
    if isinstance(target, BaseLLM):
        raise UsageError(
            f"{what} ({type(target).__name__}) completes texts, and a chat model is needed: use its "
            "package's chat class (ChatOllama for OllamaLLM, ChatHuggingFace around "
            "HuggingFacePipeline)"
        )
    return model


def checked_reply(model: object, reply: object) -> BaseMessage:
    """Return what a model replied, which is a message of a chat model.

    Raises:
        UsageError: It is something else, such as the text that an output parser makes of it.
    """
    if isinstance(reply, BaseMessage):
        return reply
    said = "a text" if isinstance(reply, str) else type(reply).__name__
    raise UsageError(
        f"the model ({type(unbound(model)).__name__}) replied with {said}, and "
        "not with a message: give a LangChain chat model, without an output parser behind it"
    )


Role = Literal["answer", "proxy", "judge", "rewrite", "filter"]


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models of a graph by role, and how calls to them are retried.

    `judge` and `rewrite` fall back to `proxy`; `proxy` and `filter` fall back to `answer`.
    """

    answer: ChatModel
    """The model that answers (the LLM of the papers)."""
    proxy: ChatModel | None = None
    """A small model that drafts an answer (SlimPLM)."""
    judge: ChatModel | None = None
    """The model that says whether a draft or claim is known (SlimPLM)."""
    rewrite: ChatModel | None = None
    """The model that turns a draft into claims and queries (SlimPLM)."""
    filter: ChatModel | None = None
    """The model that names the passages or sentences that help (BlendFilter, FILCO)."""
    retry: RetryPolicy = field(
        default_factory=lambda: RetryPolicy(max_attempts=3, retry_on=is_transient)
    )
    """Which errors are retried, how often and at what interval."""

    def by_role(self, role: Role) -> ChatModel:
        """Return the model that plays `role`."""
        if role in ("judge", "rewrite"):
            return getattr(self, role) or self.by_role("proxy")
        return getattr(self, role) or self.answer


_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""The names of this setting in LangChain's chat models."""


def limit_name(target: object) -> str | None:
    """Return what a model calls the longest reply of a call; None where nothing is known of it.

    Azure's client hands on what it is given, under that name: there it is the name that the server
    takes, by which the client sends the model's own limit.

    Args:
        target: The model, without bindings.
    """
    if not isinstance(target, BaseChatModel):
        return None
    fields = type(target).model_fields
    name = next((name for name in _NAMES if name in fields), "max_tokens")
    is_azure = any(kind.__name__ == "AzureChatOpenAI" for kind in type(target).__mro__)
    return (fields[name].alias or name) if is_azure and name in fields else name


def reply_limit(model: ChatModel) -> int | None:
    """Return the reply limit that a model was made or bound with, in tokens; None if none was set.

    A default of the model's class does not count.
    """
    target = unbound(model)
    limits = [one for settings in bound_settings(model) for one in _numbers(settings)]
    given: set[str] = getattr(target, "model_fields_set", set())
    limits += _numbers({name: getattr(target, name, None) for name in _NAMES if name in given})
    return min(limits, default=None)


def within_limit(model: ChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's settings with `max_tokens` no higher than the model's own limit."""
    requested, most = settings.get("max_tokens"), reply_limit(model)
    if most is None or not isinstance(requested, int) or requested <= most:
        return dict(settings)
    return {**settings, "max_tokens": most}


def with_own_stops(model: ChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's settings with the stop sequences that the model was made or bound with.

    A client sends those of a call in the place of its own: a step's would end the others.
    """
    if "stop" not in settings:
        return dict(settings)
    target = unbound(model)
    own = getattr(target, "stop", None) or getattr(target, "stop_sequences", None)
    named = [settings["stop"], *(one.get("stop") for one in bound_settings(model)), own]
    lists = ([some] if isinstance(some, str) else some for some in named if some)
    return {**settings, "stop": list(dict.fromkeys(text for some in lists for text in some))}


def _numbers(settings: Mapping[str, Any]) -> list[int]:
    found = (settings.get(name) for name in _NAMES)
    return [one for one in found if isinstance(one, int) and not isinstance(one, bool) and one > 0]
