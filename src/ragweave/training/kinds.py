"""The kinds of parts that can be trained."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import cast

from ragweave.errors import MissingExtraError, UsageError
from ragweave.tools.parts import PartRole
from ragweave.training.job import Recipe

KINDS = {
    "linear": "ragweave.training.small.linear",
    "cross-encoder": "ragweave.training.small.cross_encoder",
    "span-encoder": "ragweave.training.small.span_encoder",
    "seq2seq": "ragweave.training.large.seq2seq",
    "causal-lora": "ragweave.training.large.causal",
}
"""Module of each kind."""

ONE_PROCESS = ("linear", "span-encoder")
"""Kinds that are trained by one process alone."""

DEFAULT_KIND: dict[PartRole, str] = {
    "judge": "linear",
    "filter": "span-encoder",
    "rewriter": "seq2seq",
    "generator": "seq2seq",
}
"""The kind that is trained where none is named: the smallest that does the role well."""


def recipe_of(kind: str, role: PartRole) -> Recipe:
    """Return how a kind is trained.

    Raises:
        UsageError: There is no such kind, or it can't play the role.
        MissingExtraError: What it trains with is not installed.
    """
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind!r}; kinds: {', '.join(KINDS)}")
    recipe = cast("Recipe", import_module(KINDS[kind]).RECIPE)
    if role not in recipe.roles:
        can = ", ".join(recipe.roles)
        raise UsageError(f"a {kind} can't be trained as a {role}, only as: {can}")
    if any(find_spec(name) is None for name in recipe.modules):
        raise MissingExtraError(f"Training a {kind}", recipe.extra)
    return recipe
