"""A graph as one SVG picture that needs no script, font or network.

The layout is Sugiyama, Tagawa and Toda 1981 (Methods for Visual Understanding of Hierarchical System
Structures): break cycles, layer by longest paths, split long edges at dummy vertices, order each layer by
barycentres, and place its vertices as close to their neighbours as their widths allow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from langchain_core.runnables.graph import Graph

START, END = "__start__", "__end__"

_HEIGHT, _LAYER, _GAP, _MARGIN, _DUMMY, _BOW = 34.0, 36.0, 22.0, 14.0, 10.0, 24.0
_LETTER, _SMALL = 7.4, 6.2  # width of a letter of a node's name, and of an edge's label
_SWEEPS, _PASSES = 11, 24

_STYLE = Path(__file__).with_suffix(".css").read_text("utf-8").rstrip()


class Edge(NamedTuple):
    """An edge; dashed in the picture if it is conditional."""

    source: str
    target: str
    label: str
    conditional: bool


@dataclass(frozen=True)
class Taken:
    """What a run took of a graph."""

    nodes: Mapping[str, int] = field(default_factory=dict)
    """How often each node ran."""
    edges: frozenset[tuple[str, str]] = frozenset()
    """The edges taken, by source and target."""


Point = tuple[float, float]


def draw_svg(graph: Graph, *, title: str, taken: Taken | None = None, links: Mapping[str, str] | None = None) -> str:
    """Draw a graph as one `<svg>` element.

    Args:
        graph: The graph, as `compiled.get_graph()` returns it.
        title: What the picture shows, for those who cannot see it.
        taken: What a run took of it: marked, the rest faint.
        links: Where a click on a node leads, by its name.
    """
    nodes, edges = list(graph.nodes), edges_of(graph)
    names = {node: _name(node, taken) for node in nodes}
    widths = {node: len(name) * _LETTER + 26 for node, name in names.items()}
    loops = [edge for edge in edges if edge.source == edge.target]
    layers, chains, back = _layered(nodes, [edge for edge in edges if edge not in loops])
    labelled = {chain[-2 if edge in back else 1]: edge for edge, chain in chains.items() if edge.label}
    sizes = {vertex: widths.get(vertex, _DUMMY) for layer in layers for vertex in layer}
    sizes |= {vertex: len(edge.label) * _SMALL + _DUMMY for vertex, edge in labelled.items()}
    for edge in loops:  # the bow stands beside the node
        sizes[edge.source] = widths[edge.source] + 2 * (_BOW + len(edge.label) * _SMALL)
    xs = _placed(layers, list(chains.values()), sizes)
    left = min(xs[vertex] - sizes[vertex] / 2 for vertex in xs) - _MARGIN
    width = round(max(xs[vertex] + sizes[vertex] / 2 for vertex in xs) + _MARGIN - left)
    height = round(2 * _MARGIN + _HEIGHT + (len(layers) - 1) * _LAYER)
    ys = {vertex: _MARGIN + _HEIGHT / 2 + depth * _LAYER for depth, layer in enumerate(layers) for vertex in layer}
    at = {vertex: (xs[vertex] - left, ys[vertex]) for vertex in xs}
    parts = [_curve(edge, [at[vertex] for vertex in chain], edge in back, taken) for edge, chain in chains.items()]
    parts += [_label(edge, at[vertex], taken) for vertex, edge in labelled.items()]
    parts += [_box(node, names[node], at[node], widths[node], taken, (links or {}).get(node)) for node in nodes]
    parts += [_loop(edge, at[edge.source], widths[edge.source], taken) for edge in loops]
    return (
        f'<svg class="rw" xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><title>{escape(title)}</title><style>{_STYLE}</style><defs>'
        '<marker id="rw-head" viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="9" '
        'markerHeight="9" orient="auto"><path class="head" d="M0 0 8 4 0 8z"/></marker></defs>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>'
    )


def edges_of(graph: Graph) -> list[Edge]:
    """Return a graph's edges; several edges between the same two nodes become one, with all their labels."""
    joined: dict[tuple[str, str], Edge] = {}
    for edge in graph.edges:
        key, label = (edge.source, edge.target), "" if edge.data is None else str(edge.data)
        if key in joined:
            label = " / ".join(filter(None, [joined[key].label, label]))
        joined[key] = Edge(*key, label, edge.conditional)
    return list(joined.values())


def _layered(nodes: list[str], edges: list[Edge]) -> tuple[list[list[str]], dict[Edge, list[str]], set[Edge]]:
    """Return the layers, nodes on even ones; each edge's vertices from top to bottom; the edges that run upwards."""
    back = _closing_cycles(nodes, edges)
    ends = {edge: (edge.target, edge.source) if edge in back else (edge.source, edge.target) for edge in edges}
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for top, bottom in ends.values():
            depth[bottom] = max(depth[bottom], depth[top] + 1)
    layers: list[list[str]] = [[] for _ in range(2 * max(depth.values(), default=0) + 1)]
    for node in nodes:
        layers[2 * depth[node]].append(node)
    chains = {}
    for number, (edge, (top, bottom)) in enumerate(ends.items()):
        between = {layer: f"{number}:{layer}" for layer in range(2 * depth[top] + 1, 2 * depth[bottom])}
        for layer, dummy in between.items():
            layers[layer].append(dummy)
        chains[edge] = [top, *between.values(), bottom]
    return layers, chains, back


def _closing_cycles(nodes: list[str], edges: list[Edge]) -> set[Edge]:
    back, done = set[Edge](), set[str]()

    def visit(node: str, path: frozenset[str]) -> None:
        own = (edge for edge in edges if edge.source == node)
        for edge in sorted(own, key=lambda edge: nodes.index(edge.target)):
            if edge.target in path:
                back.add(edge)
            elif edge.target not in done:
                visit(edge.target, path | {edge.target})
        done.add(node)

    for node in nodes:
        if node not in done:
            visit(node, frozenset({node}))
    return back


def _placed(
    layers: Sequence[list[str]], chains: Sequence[Sequence[str]], sizes: Mapping[str, float]
) -> dict[str, float]:
    """Order every layer by its neighbours' places, and pull its vertices towards them, down and up again."""
    above, below = dict[str, list[str]](), dict[str, list[str]]()
    for top, bottom in (pair for chain in chains for pair in pairwise(chain)):
        below.setdefault(top, []).append(bottom)
        above.setdefault(bottom, []).append(top)
    xs: dict[str, float] = {}
    for layer in layers:
        xs |= _spread(layer, [0.0] * len(layer), sizes)
    for turn in range(_PASSES):
        sides = [above, below] if turn >= _PASSES - 2 else [below if turn % 2 else above]
        for layer in reversed(layers) if turn % 2 else layers:
            near = {
                vertex: [xs[other] for side in sides for other in side.get(vertex, ())] or [xs[vertex]]
                for vertex in layer
            }
            means = {vertex: sum(places) / len(places) for vertex, places in near.items()}
            if turn < _SWEEPS:
                layer.sort(key=means.__getitem__)
            xs |= _spread(layer, [means[vertex] for vertex in layer], sizes)
    return xs


def _spread(layer: Sequence[str], wanted: Sequence[float], sizes: Mapping[str, float]) -> dict[str, float]:
    """Return the places nearest to those wanted that keep order and distance, by pooling adjacent violators."""
    offsets = [0.0]
    for left, right in pairwise(layer):
        offsets.append(offsets[-1] + (sizes[left] + sizes[right]) / 2 + _GAP)
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            earlier, many = blocks.pop()
            mean, count = (earlier * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return {vertex: mean + offset for vertex, mean, offset in zip(layer, means, offsets, strict=False)}


def _curve(edge: Edge, chain: Sequence[Point], upwards: bool, taken: Taken | None) -> str:
    """Draw a smooth curve through the vertices that leaves and arrives upright."""
    (x, y), *middle, (to_x, to_y) = chain
    points = [(x, y + _HEIGHT / 2), *middle, (to_x, to_y - _HEIGHT / 2)][:: -1 if upwards else 1]
    slopes = [((c[0] - a[0]) / 6, (c[1] - a[1]) / 6) for a, c in zip(points, points[2:], strict=False)]
    steep = (0.0, -9.0 if upwards else 9.0)
    path = "M{:.1f} {:.1f}".format(*points[0])
    for (a, b), (out, into) in zip(pairwise(points), pairwise([steep, *slopes, steep]), strict=True):
        near = (a[0] + out[0], a[1] + out[1], b[0] - into[0], b[1] - into[1], *b)
        path += "C" + " ".join(f"{coordinate:.1f}" for coordinate in near)
    return _line(edge, path, taken)


def _loop(edge: Edge, centre: Point, width: float, taken: Taken | None) -> str:
    right, y = centre[0] + width / 2, centre[1]
    label = _label(edge, (right + _BOW + len(edge.label) * _SMALL / 2, y), taken) if edge.label else ""
    return _line(edge, f"M{right:.1f} {y - 7:.1f}c26 -10 26 24 0 14", taken) + label


def _line(edge: Edge, path: str, taken: Taken | None) -> str:
    kind = "line choice" if edge.conditional else "line"
    return f'<path class="{kind}{_mark(taken, edge[:2])}" d="{path}" marker-end="url(#rw-head)"/>'


def _mark(taken: Taken | None, what: str | tuple[str, ...]) -> str:
    if taken is None:
        return ""
    return " on" if what in taken.nodes or what in taken.edges else " off"


def _label(edge: Edge, centre: Point, taken: Taken | None) -> str:
    return f'<text class="label{_mark(taken, edge[:2])}" x="{centre[0]:.1f}" y="{centre[1]:.1f}">{escape(edge.label)}</text>'


def _name(node: str, taken: Taken | None) -> str:
    name = node.strip("_") if node in (START, END) else node
    times = taken.nodes.get(node, 0) if taken else 0
    return f"{name} ×{times}" if times > 1 else name


def _box(node: str, name: str, centre: Point, width: float, taken: Taken | None, link: str | None) -> str:
    (x, y), is_end = centre, node in (START, END)
    kind = ("end" if is_end else "box") + _mark(taken, node)
    drawn = (
        f'<g class="{kind}"><rect x="{x - width / 2:.1f}" y="{y - _HEIGHT / 2:.1f}" width="{width:.1f}" '
        f'height="{_HEIGHT:.0f}" rx="{_HEIGHT / 2 if is_end else 7:.0f}"/><text x="{x:.1f}" y="{y:.1f}">'
        f"{escape(name)}</text></g>"
    )
    return f'<a href="{escape(link)}">{drawn}</a>' if link else drawn
