"""Which chat model plays which role in a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable
from langgraph.types import RetryPolicy

from ragweave.tools.models.faults import is_transient

ChatModel: TypeAlias = Runnable[LanguageModelInput, BaseMessage]
"""A LangChain chat model, or a binding of one."""

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
    """Which faults are tried again, how often and how long apart."""

    def by_role(self, role: Role) -> ChatModel:
        """Return the model that plays `role`."""
        if role in ("judge", "rewrite"):
            return getattr(self, role) or self.by_role("proxy")
        return getattr(self, role) or self.answer
