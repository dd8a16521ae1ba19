"""What failed attempts at a node have spent, for the attempt that ends.

LangGraph repeats a node that failed, and of a failed attempt it keeps no update: the calls that had
succeeded in it would be in nobody's usage. They are kept here by LangGraph's path of the task,
which is the same for every attempt at it and differs between runs, and between the branches of one.
"""

from __future__ import annotations

import threading

from langchain_core.runnables import RunnableConfig

from ragweave.state import Usage

_MOST = 1000
"""Tasks that are kept. Nothing says that an attempt was the last: what failed runs leave goes when
later ones need the room."""

_SPENT: dict[str, Usage] = {}
_LOCK = threading.Lock()


def keep_spent(config: RunnableConfig, usage: Usage | None) -> None:
    """Keep what a failed attempt at this task has spent, earlier ones included."""
    if usage is None or not (task := _task(config)):
        return
    with _LOCK:
        _SPENT[task] = usage
        if len(_SPENT) > _MOST:
            del _SPENT[next(iter(_SPENT))]


def take_spent(config: RunnableConfig) -> Usage | None:
    """Return what the attempts at this task have spent so far, and forget it; None: nothing."""
    with _LOCK:
        return _SPENT.pop(_task(config), None)


def _task(config: RunnableConfig) -> str:
    return str((config.get("metadata") or {}).get("langgraph_checkpoint_ns") or "")
