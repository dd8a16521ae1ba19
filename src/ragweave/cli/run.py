"""Running a graph for the command line: its events go to a `Watch`, its output comes back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import StreamMode

from ragweave.cli.watch import Watch
from ragweave.graphs import CompiledGraph


async def follow(graph: CompiledGraph, given: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
    """Run `graph` on `given`, async so that Ctrl-C ends it at once, and return its output."""
    modes: list[StreamMode] = ["values", "tasks"]
    if watch.live:
        modes.append("messages")
    config: RunnableConfig = {"callbacks": [watch.calls]}
    events = cast("AsyncIterator[tuple[str, Any]]", graph.astream(given, config, stream_mode=modes))
    async for mode, event in events:
        if mode == "values":
            watch.output = dict(event)
        elif mode == "tasks":
            watch.task(event)
        else:
            watch.token(*event)
    watch.close()
    return watch.output
