"""How many tokens a model takes, and how many of them a prompt may have."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any, Protocol, runtime_checkable

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage
from langchain_core.runnables import RunnableLambda

from ragweave.nodes.options import Options
from ragweave.nodes.step import Call
from ragweave.tools.bindings import unbound
from ragweave.tools.models import ChatModel
from ragweave.tools.models.ollama import ollama_context
from ragweave.tools.models.served_context import (
    alearn_context,
    learn_context,
    may_tell_context,
    served_context,
)
from ragweave.tools.models.thinking import thinking_room
from ragweave.tools.text.normalize import estimate_message_tokens


def learnt_context(model: ChatModel) -> Generator[Call, Any, None]:
    """Ask a model's server for the model's context, once, or let a model in this process choose it.

    Either may take seconds, so neither is done on an event loop.
    """
    if may_tell_context(model):
        yield Call(_LEARN, model, config={"callbacks": []}, client=model)
    target = unbound(model)
    if isinstance(target, _ChoosesContext) and not target.context_chosen:
        yield Call(_CHOOSE, target, config={"callbacks": []}, client=model)


@runtime_checkable
class _ChoosesContext(Protocol):
    @property
    def context_chosen(self) -> bool: ...

    def choose_context(self) -> int | None: ...


def _choose(model: _ChoosesContext) -> int | None:
    return model.choose_context()


_LEARN = RunnableLambda(learn_context, afunc=alearn_context, name="served_context")
_CHOOSE = RunnableLambda(_choose, name="chosen_context")


def context_of(model: ChatModel) -> int | None:
    """Return the most input tokens that `model` is known to take.

    By LangChain's model profile, and by the context that a model in this process opens, Ollama's is
    set to, or an OpenAI-compatible server tells of, which may be shorter than its own.
    """
    target = unbound(model)
    profile = target.profile if isinstance(target, BaseChatModel) else None
    opened = (getattr(target, "opened_context", None), ollama_context(model), served_context(model))
    known = ((profile or {}).get("max_input_tokens"), *opened)
    return min((one for one in known if one is not None), default=None)


def budget_of(model: ChatModel, options: Options) -> int | None:
    """Return the most tokens that a prompt to `model` may have; None: no limit is known.

    It leaves room for the reply, and up to a quarter of the context for thoughts that the model
    counts with it.
    """
    if options.prompt_tokens is not None:
        return options.prompt_tokens
    if (context := context_of(model)) is None:
        return None
    thoughts = min(thinking_room(model), context // 4)
    return max(context - options.reply_tokens - thoughts, 1)


_ESTIMATE_ERROR = 1.25
"""How much longer than estimated a prompt may be: estimates lie within about a fifth."""


def tokens_left(model: ChatModel, messages: Sequence[BaseMessage]) -> int | None:
    """Return the tokens that a prompt surely leaves of the model's context; None: not known."""
    if (context := context_of(model)) is None:
        return None
    return context - math.ceil(_ESTIMATE_ERROR * estimate_message_tokens(messages))
