"""What is drawn: the nodes and edges of a graph, and which of them a run took."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_core.runnables.graph import Graph


class Line(NamedTuple):
    """An edge."""

    source: str
    target: str
    label: str = ""
    """What a router calls this choice; empty where it has no name of its own."""
    conditional: bool = False


@dataclass(frozen=True)
class Shape:
    """A graph's nodes by name, the first one its entry, and its edges, one between two nodes."""

    nodes: tuple[str, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Taken:
    """What a run took of a graph."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    """How often each node ran."""
    lines: frozenset[tuple[str, str]] = frozenset()
    """The edges taken, by source and target."""


def shape_of(graph: Graph) -> Shape:
    """Return the shape of a LangGraph graph (`compiled.get_graph()`).

    Edges between the same two nodes are joined, their labels too.
    """
    lines: dict[tuple[str, str], Line] = {}
    for edge in graph.edges:
        key = (edge.source, edge.target)
        label = "" if edge.data is None else str(edge.data)
        if key in lines:
            label = " / ".join(part for part in (lines[key].label, label) if part)
        lines[key] = Line(*key, label, edge.conditional)
    return Shape(tuple(graph.nodes), tuple(lines.values()))
