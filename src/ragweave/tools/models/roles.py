"""The chat models of a graph by role, and what is inside LangChain's bindings of a model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from langchain_core.decisions import BaseDecisionModel
from langchain_core.language_models import BaseLLM, LanguageModelInput
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable
from langchain_core.runnables.base import RunnableBindingBase

from ragweave.errors import UsageError

ChatModel: TypeAlias = Runnable[LanguageModelInput, AIMessage]
"""A LangChain chat model, or a binding of one."""

Role = Literal["answer", "proxy", "judge", "rewrite", "filter", "router"]


@dataclass(frozen=True, kw_only=True)
class Models:
    """The models by role: judge, rewrite and router fall back to proxy, proxy and filter to answer.

    Judge, filter and router may be decision models.
    """

    answer: ChatModel
    """The model that answers (the LLM of the papers)."""
    proxy: ChatModel | None = None
    """A small model that drafts an answer (SlimPLM)."""
    judge: ChatModel | BaseDecisionModel | None = None
    """The model that gives verdicts: whether a draft is known (SlimPLM), what a passage is worth (CRAG)."""
    rewrite: ChatModel | None = None
    """The model that turns a draft into claims and queries (SlimPLM)."""
    filter: ChatModel | BaseDecisionModel | None = None
    """The model that names the passages or sentences that help (BlendFilter, FILCO)."""
    router: ChatModel | BaseDecisionModel | None = None
    """The model that says how many searches a question takes (Adaptive-RAG)."""

    def for_role(self, role: Role) -> ChatModel:
        """Return the model that plays `role`."""
        small = self.proxy if role in ("judge", "rewrite", "router") else None
        chosen: ChatModel = getattr(self, role) or small or self.answer
        return chosen

    def decides(self, role: Role) -> bool:
        """Say whether a decision model plays `role`."""
        return isinstance(unbound(self.for_role(role)), BaseDecisionModel)


Pairs: TypeAlias = Sequence[tuple[str, str]]
"""Prompts and their continuations."""


@runtime_checkable
class LogprobScorer(Protocol):
    """Scores texts behind a prompt by their log-probabilities, as CXMI needs (FILCO, section 2.2). Safe under threads.

    If its model is causal, it may say so by an attribute `causal` that is True: CXMI then leads over to the answer.
    """

    def score(self, pairs: Pairs) -> list[float]:
        """Return the natural-log probability of each continuation given its prompt, at most 0, in nats.

        Each is a sum over the continuation's tokens and the end token, as in FILCO's code; other pairs do not change it.
        """
        ...


def unbound(target: object) -> Any:
    """Return the runnable inside `.bind(…)`, `.with_config(…)` and `.with_retry(…)`; anything else unchanged."""
    while isinstance(target, RunnableBindingBase):
        target = target.bound
    return target


def bound_settings(target: object) -> Iterator[dict[str, Any]]:
    """Yield the settings of a runnable's bindings, the outermost first."""
    while isinstance(target, RunnableBindingBase):
        yield dict(target.kwargs)
        target = target.bound


def trained_role(model: Any) -> str | None:
    """Return what a trained component was trained as, such as `judge`; None for any other model."""
    role: str | None = getattr(unbound(model), "trained_role", None)
    return role


def checked_chat(model: Any, what: str = "a model") -> ChatModel:
    """Return a model if it is a chat model.

    Raises:
        UsageError: It completes texts, or is no LangChain model at all.
    """
    target = unbound(model)
    if isinstance(target, BaseLLM):
        raise UsageError(
            f"{what} ({type(target).__name__}) completes texts, and a chat model is needed: use its package's chat class"
        )
    if not isinstance(model, Runnable):
        name = type(model).__name__
        raise UsageError(f"{what} must be a LangChain chat model or a spec such as 'openai:gpt-4o-mini', not {name}")
    return model
