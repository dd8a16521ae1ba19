"""The methods: one file each, wiring and nothing else."""

from ragweave.graphs.build import build_graph
from ragweave.graphs.frame import CompiledGraph, Parts
from ragweave.graphs.method import Method
from ragweave.graphs.registry import METHODS

__all__ = ["METHODS", "CompiledGraph", "Method", "Parts", "build_graph"]
