"""The methods by name, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from ragweave.graphs.base import Method
from ragweave.registry import Registry

_NAMES = (
    "direct",
    "cot",
    "concat",
    "post_fusion",
    "pruning",
    "summary",
    "concat_pf",
    "pf_concat",
    "blendfilter",
    "slimplm",
    "filco",
    "adaptive",
    "iter_retgen",
    "self_ask",
    "react",
    "agentic",
    "flare",
    "self_eval",
    "skr_knn",
    "dos_rag",
    "ircot",
    "chain_of_note",
    "crag",
    "sure",
    "astute",
    "uncertainty_gate",
    "adaptive_rag",
    "search_r1",
    "search_o1",
    "main_rag",
    "decompose",
    "research",
)


def _ours() -> Iterable[Method]:
    for name in _NAMES:
        module = import_module(f"ragweave.graphs.{name}")
        yield next(one for one in vars(module).values() if isinstance(one, Method) and one.name == name)


METHODS: Registry[Method] = Registry("ragweave.methods", Method, "method", _ours)
"""Every method by name: ours, then those of other packages (entry points `ragweave.methods`)."""

register_method = METHODS.register
"""Add a method for the time of this process: `register_method(my_method)`, in a notebook or script."""
