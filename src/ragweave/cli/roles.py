"""The models of a command, by flag or by option: `--judge judge/`, `--option judge=judge/`.

Running a graph for the command line: its events go to a `Watch`, its output comes back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.types import StreamMode

from ragweave.cli.watch import Watch
from ragweave.errors import UsageError
from ragweave.graphs import CompiledGraph

NAMED = {"judge": "judge", "rewriter": "rewriter", "generator": "model"}
"""Options that name a model, and the argument of `build_graph` that each one is."""

DEFAULT = "extractive"
"""The answering model where none is named."""


def with_named(
    flags: Mapping[str, str | None], texts: Iterable[str]
) -> tuple[dict[str, str], list[str]]:
    """Take the options that name a model to the flags.

    Args:
        flags: Model specs by `build_graph`'s arguments; None or "" where a flag was not given.
        texts: `name=value` options.

    Returns:
        The models that were named one way or the other, and the method's own options.

    Raises:
        UsageError: An option names no model, or a model is named twice.
    """
    models = {name: spec for name, spec in flags.items() if spec}
    named: dict[str, str] = {}
    rest: list[str] = []
    for text in texts:
        name, _, value = text.partition("=")
        if name.strip() not in NAMED:
            rest.append(text)
            continue
        key = NAMED[name.strip()]
        if not value.strip():
            raise UsageError(f"--option {name.strip()}= names no model: give a folder or a spec")
        if key in named or models.get(key, DEFAULT) not in (DEFAULT, value.strip()):
            raise UsageError(f"--option {text}: {NAMED[name.strip()]} is named twice; name it once")
        named[key] = value.strip()
    return {**models, **named}, rest


def by_role(models: Mapping[str, str]) -> dict[str, str]:
    """Return a run's models by role: what `build_graph` calls `model` plays `answer`."""
    return {"answer" if name == "model" else name: spec for name, spec in models.items()}


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
