"""What a method's file says about it, beside its wiring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from langchain_core.prompts import ChatPromptTemplate

from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.nodes.answer_prompts import PROMPTS
from ragweave.nodes.options import Options

FUSION = "Liu et al. 2024, Post-fusion as Fallback"


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method: what it is, what it costs, how it is built."""

    name: str
    summary: str
    """What it does, in a line."""
    paper: str
    best: str
    """Model calls in the best case (k passages, p samples)."""
    worst: str
    """Model calls in the worst case."""
    options: type[Options]
    build: Callable[[Parts[Any]], CompiledGraph]
    prompts: Mapping[str, ChatPromptTemplate] = field(default_factory=dict)
    """The prompt templates that a caller may replace, by name."""


def answer_prompts(*names: str) -> Mapping[str, ChatPromptTemplate]:
    """Return the answer step's templates of these names."""
    return {name: PROMPTS[name] for name in names}
