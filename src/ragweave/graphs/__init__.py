"""The methods, one per file, and how they are built."""

from ragweave.graphs.base import Graph, Method, MethodGraph, method
from ragweave.graphs.build import build_graph
from ragweave.graphs.chat import build_chat
from ragweave.graphs.specs import METHODS, register_method

__all__ = ["METHODS", "Graph", "Method", "MethodGraph", "build_chat", "build_graph", "method", "register_method"]
