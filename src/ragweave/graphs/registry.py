"""The methods by name, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ragweave.errors import UsageError
from ragweave.graphs import (
    adaptive,
    adaptive_rag,
    astute,
    blendfilter,
    chain_of_note,
    concat,
    concat_pf,
    cot,
    crag,
    direct,
    dos_rag,
    filco,
    flare,
    ircot,
    iter_retgen,
    pf_concat,
    post_fusion,
    pruning,
    react,
    self_ask,
    self_eval,
    skr_knn,
    slimplm,
    summary,
    sure,
    uncertainty_gate,
)
from ragweave.graphs.method import Method
from ragweave.registry import Registry

_MODULES = (
    direct,
    cot,
    concat,
    post_fusion,
    pruning,
    summary,
    concat_pf,
    pf_concat,
    blendfilter,
    slimplm,
    filco,
    adaptive,
    iter_retgen,
    self_ask,
    react,
    flare,
    self_eval,
    skr_knn,
    dos_rag,
    ircot,
    chain_of_note,
    crag,
    sure,
    astute,
    uncertainty_gate,
    adaptive_rag,
)

METHODS: Registry[Method] = Registry(
    "ragweave.methods", Method, "method", lambda: (module.METHOD for module in _MODULES)
)
"""Every method by name: ours, then those of other packages (entry points `ragweave.methods`)."""

register_method = METHODS.register
"""Add a method for the time of this process: `register_method(METHOD)`, in a notebook or script."""


def check_searches_again(methods: Iterable[str]) -> None:
    """Check that a second retriever would be used by one of the methods.

    Raises:
        UsageError: None of them looks again.
    """
    if not any(METHODS.named(name).searches_again for name in methods):
        raise UsageError(
            f"--second-retriever is where {looking_again()} looks again: add that method"
        )


def looking_again() -> str:
    """Return the names of our methods that look again with a second retriever."""
    return ", ".join(one.name for one in METHODS.ours() if one.searches_again)


def arguments_for(method: str, shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments of `build_graph` that several methods share, less what this one refuses.

    Args:
        method: The method's name.
        shared: The arguments; a second retriever is for those that look again.
    """
    again = METHODS.named(method).searches_again
    return {name: one for name, one in shared.items() if again or name != "second_retriever"}
