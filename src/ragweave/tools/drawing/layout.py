"""The layout of a graph's diagram: the layer of each node, its order there, and its position.

A `Shape` is a graph's nodes and edges, `PathTaken` those that a run took. Nodes are put into
layers, then into positions within the layers.

Source: Sugiyama, Tagawa and Toda 1981 (Methods for Visual Understanding of Hierarchical System
Structures): break cycles, layer by longest paths, split long edges at dummy vertices, order the
layers by barycentres.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from langchain_core.runnables.graph import Graph


class Edge(NamedTuple):
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
    edges: tuple[Edge, ...]


@dataclass(frozen=True)
class PathTaken:
    """What a run took of a graph."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    """How often each node ran."""
    edges: frozenset[tuple[str, str]] = frozenset()
    """The edges taken, by source and target."""


def shape_of(graph: Graph) -> Shape:
    """Return the shape of a LangGraph graph (`compiled.get_graph()`).

    Edges between the same two nodes are joined, their labels too.
    """
    edges: dict[tuple[str, str], Edge] = {}
    for edge in graph.edges:
        key = (edge.source, edge.target)
        label = "" if edge.data is None else str(edge.data)
        if key in edges:
            label = " / ".join(part for part in (edges[key].label, label) if part)
        edges[key] = Edge(*key, label, edge.conditional)
    return Shape(tuple(graph.nodes), tuple(edges.values()))


SWEEPS = 12


class LayeredEdge(NamedTuple):
    """An edge through the layers: nodes at its ends, dummies between them, top to bottom."""

    edge: Edge
    vertices: tuple[str, ...]
    backwards: bool
    """Whether the edge runs from the last vertex up to the first."""


class Layers(NamedTuple):
    """Layers of vertices from the top, nodes on even layers, and the edges through them."""

    layers: list[list[str]]
    layered_edges: list[LayeredEdge]


def assign_layers(shape: Shape) -> Layers:
    """Put the nodes of a shape on layers; an edge to itself is left out."""
    edges = [edge for edge in shape.edges if edge.source != edge.target]
    back = _back_edges(shape.nodes, edges)
    depth = _layer_numbers(shape.nodes, [_downward(edge, back) for edge in edges])
    layered_edges = []
    layers: list[list[str]] = [[] for _ in range(2 * max(depth.values(), default=0) + 1)]
    for node in shape.nodes:
        layers[2 * depth[node]].append(node)
    for edge in edges:
        top, bottom = _downward(edge, back)
        dummies = []
        for layer in range(2 * depth[top] + 1, 2 * depth[bottom]):
            dummies.append(f"{edge.source} > {edge.target} @ {layer}")
            layers[layer].append(dummies[-1])
        layered_edges.append(LayeredEdge(edge, (top, *dummies, bottom), edge in back))
    return Layers(_fewest_crossings(layers, layered_edges), layered_edges)


def _downward(edge: Edge, back: set[Edge]) -> tuple[str, str]:
    return (edge.target, edge.source) if edge in back else (edge.source, edge.target)


def _back_edges(nodes: Sequence[str], edges: Iterable[Edge]) -> set[Edge]:
    """Return the edges that close a cycle, met depth first from the first node on."""
    outgoing: dict[str, list[Edge]] = {node: [] for node in nodes}
    for edge in edges:
        outgoing[edge.source].append(edge)
    for several in outgoing.values():
        several.sort(key=lambda edge: nodes.index(edge.target))
    back: set[Edge] = set()
    done: set[str] = set()
    for root in nodes:
        path = [] if root in done else [(root, iter(outgoing[root]))]
        while path:
            node, rest = path[-1]
            following = next(rest, None)
            if following is None:
                done.add(node)
                path.pop()
            elif any(following.target == open_node for open_node, _ in path):
                back.add(following)
            elif following.target not in done:
                path.append((following.target, iter(outgoing[following.target])))
    return back


def _layer_numbers(nodes: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return each node's longest distance from a top node; the pairs hold no cycle."""
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for top, bottom in pairs:
            depth[bottom] = max(depth[bottom], depth[top] + 1)
    return depth


def _fewest_crossings(
    layers: list[list[str]], layered_edges: Sequence[LayeredEdge]
) -> list[list[str]]:
    """Return the order with the fewest crossings that sweeping by barycentres comes upon."""
    above, below = neighbours(layered_edges)
    best, fewest = layers, _crossings(layers, below)
    now = layers
    for sweep in range(SWEEPS):
        now = _swept(now, above) if sweep % 2 == 0 else _swept(now[::-1], below)[::-1]
        crossings = _crossings(now, below)
        if crossings < fewest:
            best, fewest = now, crossings
    return best


def neighbours(
    layered_edges: Sequence[LayeredEdge],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return, for each vertex, its neighbours in the layer above and in the layer below."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for layered in layered_edges:
        for top, bottom in itertools.pairwise(layered.vertices):
            below.setdefault(top, []).append(bottom)
            above.setdefault(bottom, []).append(top)
    return above, below


def _swept(layers: list[list[str]], before: Mapping[str, list[str]]) -> list[list[str]]:
    swept: list[list[str]] = []
    for layer in layers:
        place = {vertex: at for at, vertex in enumerate(swept[-1])} if swept else {}
        at_now = {vertex: float(at) for at, vertex in enumerate(layer)}
        for vertex in layer:
            seen = [place[one] for one in before.get(vertex, ()) if one in place]
            if seen:
                at_now[vertex] = sum(seen) / len(seen)
        swept.append(sorted(layer, key=at_now.__getitem__))
    return swept


def _crossings(layers: Sequence[Sequence[str]], below: Mapping[str, list[str]]) -> int:
    total = 0
    for upper, lower in itertools.pairwise(layers):
        place = {vertex: at for at, vertex in enumerate(lower)}
        ends = [(a, place[to]) for a, vertex in enumerate(upper) for to in below.get(vertex, ())]
        total += sum(a < c and b > d for a, b in ends for c, d in ends)
    return total


NODE_HEIGHT = 34.0
LAYER_HEIGHT = 36.0
GAP = 22.0
MARGIN = 14.0
DUMMY_WIDTH = 10.0
PASSES = 24
LOOP = 24.0
"""Width of the bow of an edge to its own node."""


@dataclass(frozen=True)
class Layout:
    """A drawing's geometry, in pixels from the upper left."""

    width: float
    height: float
    boxes: Mapping[str, tuple[float, float, float]]
    """Centre and width of each node."""
    paths: Sequence[tuple[Edge, list[tuple[float, float]]]]
    """Each edge's points, from its source to its target."""
    labels: Sequence[tuple[Edge, float, float]]
    """Where the label of a named edge is centred."""


def lay_out(shape: Shape, widths: Mapping[str, float], label_width: float = 6.2) -> Layout:
    """Lay a shape out top to bottom.

    Args:
        shape: What to draw.
        widths: The width of each node, in pixels.
        label_width: Width of a letter of an edge's label, in pixels.
    """
    drawn = assign_layers(shape)
    loops = {edge.source: edge for edge in shape.edges if edge.source == edge.target}
    sizes = _sizes(drawn, _widths_with_loops(widths, loops, label_width), label_width)
    xs = _x_positions(drawn, sizes)
    left = min((xs[vertex] - sizes[vertex] / 2 for vertex in xs), default=0.0) - MARGIN
    right = max((xs[vertex] + sizes[vertex] / 2 for vertex in xs), default=0.0) + MARGIN
    xs = {vertex: x - left for vertex, x in xs.items()}
    ys = {
        vertex: MARGIN + NODE_HEIGHT / 2 + at * LAYER_HEIGHT
        for at, layer in enumerate(drawn.layers)
        for vertex in layer
    }
    nodes = set(shape.nodes)
    return Layout(
        width=right - left,
        height=2 * MARGIN + NODE_HEIGHT + (len(drawn.layers) - 1) * LAYER_HEIGHT,
        boxes={node: (xs[node], ys[node], widths[node]) for node in shape.nodes},
        paths=[(layered.edge, _points(layered, xs, ys, nodes)) for layered in drawn.layered_edges],
        labels=[
            *_loop_labels(loops, xs, ys, widths, label_width),
            *(
                (layered.edge, xs[_label_vertex(layered)], ys[_label_vertex(layered)])
                for layered in drawn.layered_edges
                if layered.edge.label
            ),
        ],
    )


def _widths_with_loops(
    widths: Mapping[str, float], loops: Mapping[str, Edge], letter: float
) -> dict[str, float]:
    """Keep room beside a node for an edge to itself."""
    room = {node: 2 * (LOOP + len(edge.label) * letter) for node, edge in loops.items()}
    return {node: width + room.get(node, 0.0) for node, width in widths.items()}


def _loop_labels(
    loops: Mapping[str, Edge],
    xs: Mapping[str, float],
    ys: Mapping[str, float],
    widths: Mapping[str, float],
    letter: float,
) -> list[tuple[Edge, float, float]]:
    return [
        (edge, xs[node] + widths[node] / 2 + LOOP + len(edge.label) * letter / 2, ys[node])
        for node, edge in loops.items()
        if edge.label
    ]


def _label_vertex(layered: LayeredEdge) -> str:
    """Return the dummy that carries an edge's label: the one next to its source."""
    return layered.vertices[-2] if layered.backwards else layered.vertices[1]


def _sizes(drawn: Layers, widths: Mapping[str, float], letter: float) -> dict[str, float]:
    sizes = {vertex: widths.get(vertex, DUMMY_WIDTH) for layer in drawn.layers for vertex in layer}
    for layered in drawn.layered_edges:
        if layered.edge.label:
            sizes[_label_vertex(layered)] = len(layered.edge.label) * letter + DUMMY_WIDTH
    return sizes


def _x_positions(drawn: Layers, sizes: Mapping[str, float]) -> dict[str, float]:
    """Pull every vertex towards its neighbours, layer by layer, down and up again."""
    above, below = neighbours(drawn.layered_edges)
    xs: dict[str, float] = {}
    for layer in drawn.layers:
        xs.update(_spread(layer, [0.0] * len(layer), sizes))
    for turn in range(PASSES):
        sides = [above, below] if turn >= PASSES - 2 else [above if turn % 2 == 0 else below]
        for layer in drawn.layers if turn % 2 == 0 else reversed(drawn.layers):
            wanted = []
            for vertex in layer:
                near = [xs[one] for side in sides for one in side.get(vertex, ())]
                wanted.append(sum(near) / len(near) if near else xs[vertex])
            xs.update(_spread(layer, wanted, sizes))
    return xs


def _spread(
    layer: Sequence[str], wanted: Sequence[float], sizes: Mapping[str, float]
) -> dict[str, float]:
    """Return the places nearest to those wanted (least squares) that keep order and distance.

    With the distances taken off, this is isotonic regression: pool adjacent violators.
    """
    offsets = [0.0]
    for one, other in itertools.pairwise(layer):
        offsets.append(offsets[-1] + (sizes[one] + sizes[other]) / 2 + GAP)
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            earlier, many = blocks.pop()
            mean, count = (earlier * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return {vertex: means[at] + offsets[at] for at, vertex in enumerate(layer)}


def _points(
    layered: LayeredEdge, xs: Mapping[str, float], ys: Mapping[str, float], nodes: set[str]
) -> list[tuple[float, float]]:
    points = []
    for at, vertex in enumerate(layered.vertices):
        shift = (NODE_HEIGHT / 2 if at == 0 else -NODE_HEIGHT / 2) if vertex in nodes else 0.0
        points.append((xs[vertex], ys[vertex] + shift))
    return points[::-1] if layered.backwards else points
