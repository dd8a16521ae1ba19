"""What a graph does when the proxy is down while the big model is up: it searches the question."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def proxy_down(then: str | Callable[[], str]) -> Any:
    """Return the `error_handler` of a proxy, judge or rewriter node, for when retries are spent.

    The node's part is left out: no draft, no verdict (so: retrieve), no claims. Noted
    `proxy_failed`. A run that is over time, and a fault of code, are raised as they are.

    Args:
        then: Where the run goes on, or what says so when it fails. It must be told: LangGraph
            asks no route of a failed node, and of a fan-out it follows the plain edge behind it
            only where another branch ends well. Branches that go on to one node meet there once.
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
        return Command(update=update, goto=then() if callable(then) else then)

    return proxy_failed
