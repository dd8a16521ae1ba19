"""Notes for the reader of a trace: fallbacks taken, passages dropped."""

from __future__ import annotations

from typing import Any

from langchain_core.runnables import RunnableConfig

from ragweave.state import Note


def note(config: RunnableConfig, node: str, event: str, **detail: Any) -> Note:
    """Return a note of this superstep.

    Args:
        config: The node's run configuration, which knows the superstep.
        node: Name of the node.
        event: A short fixed name of what happened.
        detail: Plain JSON values.
    """
    step = (config.get("metadata") or {}).get("langgraph_step", 0)
    return {"step": int(step), "node": node, "event": event, "detail": detail}
