"""What a graph does when the proxy is down while the big model is up: it searches the question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import NodeError
from langgraph.types import Command

from ragweave.errors import RunTimeoutError
from ragweave.nodes.notes import note
from ragweave.state import RAGState, Update

_NOT_THE_PROXY = (
    RunTimeoutError,
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    AssertionError,
    ImportError,
)
"""The run's own limit, and errors of code rather than of a model."""


def proxy_down(then: str | Callable[[], str]) -> Any:
    """Return the `error_handler` of a proxy, judge or rewriter node, for when retries are spent.

    The node's part is left out: no draft, no verdict (so: retrieve), no claims. Noted
    `proxy_failed`. A run that is over time, and an error of code, are raised as they are.

    Args:
        then: Where the run goes on, or what says so when it fails. It must be named: LangGraph
            asks no route of a failed node, and of a fan-out it follows the plain edge behind it
            only where another branch ends well. Branches that go on to one node meet there once.
    """

    def proxy_failed(state: RAGState, error: NodeError, config: RunnableConfig) -> Command[str]:
        del state
        cause = error.error
        if isinstance(cause, _NOT_THE_PROXY):
            raise cause
        text = f"{type(cause).__name__}: {' '.join(str(cause).split())[:200]}"
        update: Update = {"notes": [note(config, error.node, "proxy_failed", fault=text)]}
        return Command(update=update, goto=then() if callable(then) else then)

    return proxy_failed
