"""The chat models of a graph by role, and what is inside LangChain's bindings of a model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

from langchain_core.decisions import BaseDecisionModel
from langchain_core.language_models import BaseLLM, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase

from ragweave.errors import UsageError
from ragweave.roles import RoleName, player_of

ChatModel: TypeAlias = Runnable[LanguageModelInput, AIMessage]
"""A LangChain chat model, or a binding of one."""


class Models:
    """Chat models, or decision models, by role. A role without a model has its fallback's."""

    def __init__(self, **models: ChatModel | BaseDecisionModel | None) -> None:
        """Take the models by the names of their roles; None: the fallback's."""
        self._models: dict[str, Any] = {name: model for name, model in models.items() if model is not None}

    def for_role(self, name: RoleName) -> ChatModel:
        """Return the model that plays a role."""
        model: ChatModel = self._models[player_of(name, self._models)]
        return model

    def decides(self, name: RoleName) -> bool:
        """Say whether a decision model plays a role."""
        return isinstance(unbound(self.for_role(name)), BaseDecisionModel)

    def given(self) -> list[Any]:
        """Return the models that were given."""
        return [*self._models.values()]


Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Prompts and their continuations."""


@runtime_checkable
class LogprobScorer(Protocol):
    """Scores continuations of a prompt by their log-probabilities, as CXMI needs (FILCO, section 2.2). Safe under threads.

    If its model is causal, it may say so by an attribute `causal` that is True: CXMI then leads over to the answer.
    """

    def score(self, pairs: Pairs) -> list[float]:
        """Return the natural-log probability of each continuation given its prompt, at most 0, in nats.

        Each is a sum over the continuation's tokens and the end token, as in FILCO's code; other pairs do not change it.
        """


def unbound(target: object) -> Any:
    """Return the runnable inside bindings and retries, of one with fallbacks the first; anything else unchanged."""
    return next(models_in(target))[0]


def models_in(target: Any, bound: Mapping[str, Any] | None = None) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the models inside bindings, retries and fallbacks, each with what is bound to it."""
    bound = bound or {}
    if isinstance(target, RunnableBindingBase):
        yield from models_in(target.bound, {**target.kwargs, **bound})
    elif isinstance(target, RunnableWithFallbacks):
        for model in target.runnables:
            yield from models_in(model, bound)
    else:
        yield target, bound


def with_each(
    target: Any, change: Callable[[Any, Mapping[str, Any]], Any], bound: Mapping[str, Any] | None = None
) -> Any:
    """Return a copy of a model, its bindings, retries and fallbacks around what `change` makes of each model inside.

    `change` gets a model and what is bound to it.
    """
    bound = bound or {}
    if isinstance(target, RunnableBindingBase):
        inside = with_each(target.bound, change, {**target.kwargs, **bound})
        return target.model_copy(update={"bound": inside})
    if isinstance(target, RunnableWithFallbacks):
        first, *others = (with_each(model, change, bound) for model in target.runnables)
        return target.model_copy(update={"runnable": first, "fallbacks": others})
    return change(target, bound)


def name_of(model: Any) -> str:
    """Return the name that a model's server knows it by; "" if it has none."""
    return str(getattr(model, "model_name", "") or getattr(model, "model", "") or "")


def trained_role(model: Any) -> str | None:
    """Return what a trained component was trained as, such as `judge`; None for any other model."""
    role: str | None = getattr(unbound(model), "trained_role", None)
    return role


def checked_chat(model: Any, what: str = "a model") -> ChatModel:
    """Return a model if it is a chat model.

    Raises:
        UsageError: It completes texts, or is not a LangChain model.
    """
    target = unbound(model)
    if isinstance(target, BaseLLM):
        raise UsageError(
            f"{what} ({type(target).__name__}) completes texts, but a chat model is needed: use its package's chat class"
        )
    if not isinstance(model, Runnable):
        name = type(model).__name__
        raise UsageError(f"{what} must be a LangChain chat model or a spec such as 'openai:gpt-4o-mini', not {name}")
    return model
