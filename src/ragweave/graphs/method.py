"""What a method's file says about it, beside its wiring.

A method is declared by one value in its own file, ours and other people's alike:

    METHOD = Method(name="draft_check", summary="…", paper="…", when="…", best="2", worst="2",
                    options=DraftCheckOptions, build=build, prompts=answer_prompts("concat"))

A package names it as an entry point of the group `ragweave.methods`; a notebook hands it to
`register_method`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.prompts import ChatPromptTemplate

from ragweave.errors import UsageError
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.nodes.answer_prompts import PROMPTS
from ragweave.nodes.options import Options

FUSION = "Liu et al. 2024, Post-fusion as Fallback"

_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: what it is, when to use it, what it costs, how it is built."""

    name: str
    """How it is asked for: lower-case letters, digits and underscores."""
    summary: str
    """What it does, in a line."""
    paper: str
    """Where it was published."""
    when: str = ""
    """When to use it, and when not."""
    best: str
    """Model calls in the best case (k passages, p samples)."""
    worst: str
    """Model calls in the worst case."""
    options: type[Options]
    """Its options, a frozen dataclass with the paper's values as defaults."""
    build: Callable[[Parts[Any]], CompiledGraph]
    """Wires and compiles its graph."""
    prompts: Mapping[str, ChatPromptTemplate] = field(default_factory=dict)
    """The prompt templates that a caller may replace, by name."""

    def __post_init__(self) -> None:
        """Check the declaration.

        Raises:
            UsageError: The name is not one, or `options` is not derived from `Options`.
        """
        if not _NAME.fullmatch(self.name):
            raise UsageError(
                f"a method's name has lower-case letters, digits and underscores, not {self.name!r}"
            )
        if not issubclass(self.options, Options):
            raise UsageError(f"the options of {self.name} must be a dataclass derived from Options")


def answer_prompts(*names: str) -> Mapping[str, ChatPromptTemplate]:
    """Return the answer step's templates of these names."""
    return {name: PROMPTS[name] for name in names}
