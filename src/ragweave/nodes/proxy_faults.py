"""What a graph does when the proxy is down while the big model is up: it searches the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.errors import NodeError
from langgraph.types import Command

from ragweave.errors import RunTimeoutError
from ragweave.nodes.notes import note

_NOT_THE_PROXY = (
    RunTimeoutError,
    TypeError,
    AttributeError,
    NameError,
    LookupError,
    AssertionError,
    ImportError,
)
"""The run's own limit, and faults of code rather than of a model."""


def proxy_down(then: str | None = None) -> Any:
    """Return the `error_handler` of a proxy, judge or rewriter node, for when retries are spent.

    The node's part is left out: no draft, no verdict (so: retrieve), no claims. Noted
    `proxy_failed`. A run that is over time, and a fault of code, are raised as they are.

    Args:
        then: Where the run goes on, where the node has a route behind it: LangGraph follows a
            failed node's plain edges, but asks no route of it.
    """

    def proxy_failed(
        state: Mapping[str, Any], error: NodeError, config: RunnableConfig
    ) -> Command[str]:
        del state
        fault = error.error
        if isinstance(fault, _NOT_THE_PROXY):
            raise fault
        told = f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
        update = {"notes": [note(config, error.node, "proxy_failed", fault=told)]}
        return Command(update=update, goto=then or ())

    return proxy_failed
