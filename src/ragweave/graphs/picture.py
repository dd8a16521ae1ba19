"""A method's graph for its picture and schemas alone: nothing that it needs to run is asked for."""

from __future__ import annotations

from typing import ClassVar

from ragweave.graphs.build import build_graph
from ragweave.graphs.frame import CompiledGraph
from ragweave.tools.models.extractive import ExtractiveChat


class AnyModel(ExtractiveChat):
    """Stands for any model, also for one that reports log-probabilities (FLARE)."""

    gives_logprobs: ClassVar[bool] = True


def drawable(method: str) -> CompiledGraph:
    """Return a method's graph, not to be run."""
    return build_graph(method, model=AnyModel())
