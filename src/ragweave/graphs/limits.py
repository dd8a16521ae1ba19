"""A run's limits in what stands around it: a graph, a batch, a chain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import (
    DEFAULT_RECURSION_LIMIT,
    ensure_config,
    var_child_runnable_config,
)

MOST_STEPS = int(os.environ.get("LANGGRAPH_DEFAULT_RECURSION_LIMIT", "10007"))
"""Steps of a run for which nobody has set a limit: LangGraph's own default."""

_FILLED_IN = frozenset({"tags", "metadata", "callbacks", "configurable"})
"""The keys that LangChain fills in beside its limit; a caller's own limit comes without them."""


def is_nested(config: RunnableConfig | None) -> bool:
    """Say whether a run is inside of a node of another graph."""
    return "langgraph_node" in ensure_config(config)["metadata"]


def bounded(own: RunnableConfig | None, config: RunnableConfig | None) -> RunnableConfig | None:
    """Return a run's configuration with the outer run's `max_concurrency`, where that is less.

    Without it the graph's own (`own`, what it is bound to) would hold again for every graph that a
    node invokes without a configuration.
    """
    around = (var_child_runnable_config.get() or {}).get("max_concurrency")
    bound = (own or {}).get("max_concurrency")
    if around is None or (config or {}).get("max_concurrency") is not None:
        return config
    least = around if bound is None else min(bound, around)
    return {**(config or {}), "max_concurrency": least}


def with_own_steps(
    own: RunnableConfig | None, config: RunnableConfig | None
) -> RunnableConfig | None:
    """Return a run's configuration without the limit of 25 steps that LangChain fills in.

    A batch, a chain and a stream of events fill it in, where `invoke` alone has LangGraph's limit,
    and a loop of more rounds would silently end by it. A limit that somebody set stands: the
    caller's, else the graph's own (`own`, what it is bound to), else that of the chain. A run
    inside of another graph has that one's. A caller's own 25 for a batch or a chain can't be told
    from the one filled in; the graph's own 25 can, since it stands apart.
    """
    around = var_child_runnable_config.get()
    if not (_is_filled_in(config) or _is_filled_in(around)) or is_nested(config):
        return config
    told = (
        one.get("recursion_limit")
        for one in (config or {}, own or {}, around or {})
        if not _is_filled_in(one)
    )
    limit = next((one for one in told if one is not None), MOST_STEPS)
    return {**(config or {}), "recursion_limit": limit}


def _is_filled_in(config: Mapping[str, Any] | None) -> bool:
    """Say whether a configuration's limit is LangChain's default, which nobody asked for."""
    given = config or {}
    return given.get("recursion_limit") == DEFAULT_RECURSION_LIMIT and given.keys() >= _FILLED_IN
