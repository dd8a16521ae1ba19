"""What stands behind a model's or retriever's bindings (`model.bind(…)`, `.with_config(…)`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from langchain_core.runnables.base import RunnableBindingBase


def unbound(target: object) -> Any:
    """Return what stands behind a runnable's bindings; anything else as it is."""
    while isinstance(target, RunnableBindingBase):
        target = target.bound
    return target


def bound_settings(target: object) -> Iterator[dict[str, Any]]:
    """Yield the settings of a runnable's bindings, the outermost first."""
    while isinstance(target, RunnableBindingBase):
        yield dict(target.kwargs)
        target = target.bound
