"""The methods by name, in the order in which they are listed."""

from __future__ import annotations

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
