"""Looking through LangChain's bindings: `.bind(…)`, `.with_config(…)`, `.with_retry(…)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.runnables.base import RunnableBindingBase


def unbound(target: object) -> Any:
    """Return the runnable inside bindings; anything else unchanged."""
    while isinstance(target, RunnableBindingBase):
        target = target.bound
    return target


def bound_settings(target: object) -> Iterator[dict[str, Any]]:
    """Yield the settings of a runnable's bindings, the outermost first."""
    while isinstance(target, RunnableBindingBase):
        yield dict(target.kwargs)
        target = target.bound
