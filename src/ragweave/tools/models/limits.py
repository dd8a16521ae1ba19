"""How long a reply may be: the lower of what a step asks for and what the model was made with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.runnables.base import RunnableBindingBase

from ragweave.tools.models.roles import ChatModel

_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "num_predict")
"""What LangChain's chat models call it."""


def reply_limit(model: ChatModel) -> int | None:
    """Return the most reply tokens that a model was made or bound with; None where nobody said.

    A default of the model's own class is nobody's wish and does not count.
    """
    target: Any = model
    limits: list[int] = []
    while isinstance(target, RunnableBindingBase):
        limits += _numbers(target.kwargs)
        target = target.bound
    given: set[str] = getattr(target, "model_fields_set", set())
    limits += _numbers({name: getattr(target, name, None) for name in _NAMES if name in given})
    return min(limits, default=None)


def within_limit(model: ChatModel, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's settings with `max_tokens` no higher than the model's own limit."""
    wanted, most = settings.get("max_tokens"), reply_limit(model)
    if most is None or not isinstance(wanted, int) or wanted <= most:
        return dict(settings)
    return {**settings, "max_tokens": most}


def _numbers(settings: Mapping[str, Any]) -> list[int]:
    found = (settings.get(name) for name in _NAMES)
    return [one for one in found if isinstance(one, int) and not isinstance(one, bool) and one > 0]
