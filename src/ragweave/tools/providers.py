"""Model providers by name: what stands before the colon of `openai:gpt-4o-mini`.

A provider is declared by one value, ours and other people's alike:

    PROVIDER = ModelProvider(name="echo", spec="echo:WORD", summary="Says WORD.",
                             make=lambda name, settings: EchoChat(word=name, **settings))

A package names it as an entry point of the group `ragweave.models`; it is then what
`--model echo:hello` asks for, in every role.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ragweave.registry import Registry


@dataclass(frozen=True, kw_only=True)
class ModelProvider:
    """A provider of chat models: its name, and how a model is made."""

    name: str
    spec: str
    """The form of its specs, for people: `openai:NAME`."""
    summary: str
    """What its models are, in a line."""
    make: Callable[[str, Mapping[str, Any]], Any]
    """Makes a LangChain chat model of what stands between the colon and `?` ("" where nothing
    does), and of the settings behind `?`, typed. A `ValueError` or `TypeError` counts as settings
    that are not understood."""


def _ours() -> Iterable[ModelProvider]:
    listed: Iterable[ModelProvider] = import_module("ragweave.tools.models.specs").PROVIDERS
    return listed


MODELS: Registry[ModelProvider] = Registry(
    "ragweave.models", ModelProvider, "model provider", _ours
)
"""Every provider by name: ours, then those of other packages (entry points `ragweave.models`)."""
