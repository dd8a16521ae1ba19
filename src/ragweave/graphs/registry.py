"""The methods by name, in the order in which they are listed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ragweave.graphs import (
    adaptive,
    blendfilter,
    concat,
    concat_pf,
    cot,
    direct,
    filco,
    flare,
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
)
from ragweave.graphs.method import Method

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
)

METHODS: Mapping[str, Method] = MappingProxyType(
    {module.METHOD.name: module.METHOD for module in _MODULES}
)
"""Every method by name."""
