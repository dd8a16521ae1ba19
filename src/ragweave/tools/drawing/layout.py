"""The layout of a graph's diagram: the row of each node, its order there, and its position.

A `Shape` is a graph's nodes and edges, `Taken` those that a run took. Nodes are put into layers,
then into positions within the rows.

Source: Sugiyama, Tagawa and Toda 1981 (Methods for Visual Understanding of Hierarchical System
Structures): break cycles, take longest paths as rows, pad long edges, sort rows by barycentre.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
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


SWEEPS = 12


class Chain(NamedTuple):
    """An edge through the rows: real nodes at its ends, pads between them, top to bottom."""

    line: Line
    stops: tuple[str, ...]
    backwards: bool
    """Whether the edge runs from the last stop up to the first."""


class Rows(NamedTuple):
    """Rows of stops from the top, nodes on even rows, and the edges through them."""

    rows: list[list[str]]
    chains: list[Chain]


def rows_of(shape: Shape) -> Rows:
    """Put a shape on rows; an edge to itself is left out."""
    lines = [line for line in shape.lines if line.source != line.target]
    back = _back_edges(shape.nodes, lines)
    depth = _depths(shape.nodes, [_downward(line, back) for line in lines])
    chains = []
    rows: list[list[str]] = [[] for _ in range(2 * max(depth.values(), default=0) + 1)]
    for node in shape.nodes:
        rows[2 * depth[node]].append(node)
    for line in lines:
        top, bottom = _downward(line, back)
        pads = []
        for row in range(2 * depth[top] + 1, 2 * depth[bottom]):
            pads.append(f"{line.source} > {line.target} @ {row}")
            rows[row].append(pads[-1])
        chains.append(Chain(line, (top, *pads, bottom), line in back))
    return Rows(_sorted_rows(rows, chains), chains)


def _downward(line: Line, back: set[Line]) -> tuple[str, str]:
    return (line.target, line.source) if line in back else (line.source, line.target)


def _back_edges(nodes: Sequence[str], lines: Iterable[Line]) -> set[Line]:
    """Return the edges that close a cycle, met depth first from the first node on."""
    leaving: dict[str, list[Line]] = {node: [] for node in nodes}
    for line in lines:
        leaving[line.source].append(line)
    for several in leaving.values():
        several.sort(key=lambda line: nodes.index(line.target))
    back: set[Line] = set()
    done: set[str] = set()
    for root in nodes:
        path = [] if root in done else [(root, iter(leaving[root]))]
        while path:
            node, rest = path[-1]
            following = next(rest, None)
            if following is None:
                done.add(node)
                path.pop()
            elif any(following.target == open_node for open_node, _ in path):
                back.add(following)
            elif following.target not in done:
                path.append((following.target, iter(leaving[following.target])))
    return back


def _depths(nodes: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return each node's longest distance from a top node; the pairs hold no cycle."""
    depth = dict.fromkeys(nodes, 0)
    for _ in nodes:
        for top, bottom in pairs:
            depth[bottom] = max(depth[bottom], depth[top] + 1)
    return depth


def _sorted_rows(rows: list[list[str]], chains: Sequence[Chain]) -> list[list[str]]:
    """Return the order with the fewest crossings that sweeping by barycentres comes upon."""
    above, below = neighbours(chains)
    best, fewest = rows, _crossings(rows, below)
    now = rows
    for sweep in range(SWEEPS):
        now = _swept(now, above) if sweep % 2 == 0 else _swept(now[::-1], below)[::-1]
        crossings = _crossings(now, below)
        if crossings < fewest:
            best, fewest = now, crossings
    return best


def neighbours(chains: Sequence[Chain]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return, for each stop, the stops above it and the stops below it."""
    above: dict[str, list[str]] = {}
    below: dict[str, list[str]] = {}
    for chain in chains:
        for top, bottom in itertools.pairwise(chain.stops):
            below.setdefault(top, []).append(bottom)
            above.setdefault(bottom, []).append(top)
    return above, below


def _swept(rows: list[list[str]], before: Mapping[str, list[str]]) -> list[list[str]]:
    swept: list[list[str]] = []
    for row in rows:
        place = {stop: at for at, stop in enumerate(swept[-1])} if swept else {}
        at_now = {stop: float(at) for at, stop in enumerate(row)}
        for stop in row:
            seen = [place[one] for one in before.get(stop, ()) if one in place]
            if seen:
                at_now[stop] = sum(seen) / len(seen)
        swept.append(sorted(row, key=at_now.__getitem__))
    return swept


def _crossings(rows: Sequence[Sequence[str]], below: Mapping[str, list[str]]) -> int:
    total = 0
    for upper, lower in itertools.pairwise(rows):
        place = {stop: at for at, stop in enumerate(lower)}
        ends = [(a, place[to]) for a, stop in enumerate(upper) for to in below.get(stop, ())]
        total += sum(a < c and b > d for a, b in ends for c, d in ends)
    return total


NODE_HEIGHT = 34.0
ROW = 36.0
GAP = 22.0
MARGIN = 14.0
PAD = 10.0
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
    paths: Sequence[tuple[Line, list[tuple[float, float]]]]
    """Each edge's points, from its source to its target."""
    labels: Sequence[tuple[Line, float, float]]
    """Where the label of a named edge is centred."""


def lay_out(shape: Shape, widths: Mapping[str, float], label_width: float = 6.2) -> Layout:
    """Lay a shape out top to bottom.

    Args:
        shape: What to draw.
        widths: The width of each node, in pixels.
        label_width: Width of a letter of an edge's label, in pixels.
    """
    drawn = rows_of(shape)
    loops = {line.source: line for line in shape.lines if line.source == line.target}
    sizes = _sizes(drawn, _with_loops(widths, loops, label_width), label_width)
    xs = _places(drawn, sizes)
    left = min((xs[stop] - sizes[stop] / 2 for stop in xs), default=0.0) - MARGIN
    right = max((xs[stop] + sizes[stop] / 2 for stop in xs), default=0.0) + MARGIN
    xs = {stop: x - left for stop, x in xs.items()}
    ys = {
        stop: MARGIN + NODE_HEIGHT / 2 + at * ROW
        for at, row in enumerate(drawn.rows)
        for stop in row
    }
    nodes = set(shape.nodes)
    return Layout(
        width=right - left,
        height=2 * MARGIN + NODE_HEIGHT + (len(drawn.rows) - 1) * ROW,
        boxes={node: (xs[node], ys[node], widths[node]) for node in shape.nodes},
        paths=[(chain.line, _points(chain, xs, ys, nodes)) for chain in drawn.chains],
        labels=[
            *_loop_labels(loops, xs, ys, widths, label_width),
            *(
                (chain.line, xs[_label_stop(chain)], ys[_label_stop(chain)])
                for chain in drawn.chains
                if chain.line.label
            ),
        ],
    )


def _with_loops(
    widths: Mapping[str, float], loops: Mapping[str, Line], letter: float
) -> dict[str, float]:
    """Keep room beside a node for an edge to itself."""
    room = {node: 2 * (LOOP + len(line.label) * letter) for node, line in loops.items()}
    return {node: width + room.get(node, 0.0) for node, width in widths.items()}


def _loop_labels(
    loops: Mapping[str, Line],
    xs: Mapping[str, float],
    ys: Mapping[str, float],
    widths: Mapping[str, float],
    letter: float,
) -> list[tuple[Line, float, float]]:
    return [
        (line, xs[node] + widths[node] / 2 + LOOP + len(line.label) * letter / 2, ys[node])
        for node, line in loops.items()
        if line.label
    ]


def _label_stop(chain: Chain) -> str:
    """Return the pad that carries an edge's label: the one next to its source."""
    return chain.stops[-2] if chain.backwards else chain.stops[1]


def _sizes(drawn: Rows, widths: Mapping[str, float], letter: float) -> dict[str, float]:
    sizes = {stop: widths.get(stop, PAD) for row in drawn.rows for stop in row}
    for chain in drawn.chains:
        if chain.line.label:
            sizes[_label_stop(chain)] = len(chain.line.label) * letter + PAD
    return sizes


def _places(drawn: Rows, sizes: Mapping[str, float]) -> dict[str, float]:
    """Pull every stop towards its neighbours, row by row, down and up again."""
    above, below = neighbours(drawn.chains)
    xs: dict[str, float] = {}
    for row in drawn.rows:
        xs.update(_spread(row, [0.0] * len(row), sizes))
    for turn in range(PASSES):
        sides = [above, below] if turn >= PASSES - 2 else [above if turn % 2 == 0 else below]
        for row in drawn.rows if turn % 2 == 0 else reversed(drawn.rows):
            wanted = []
            for stop in row:
                near = [xs[one] for side in sides for one in side.get(stop, ())]
                wanted.append(sum(near) / len(near) if near else xs[stop])
            xs.update(_spread(row, wanted, sizes))
    return xs


def _spread(
    row: Sequence[str], wanted: Sequence[float], sizes: Mapping[str, float]
) -> dict[str, float]:
    """Return the places nearest to those wanted (least squares) that keep order and distance.

    With the distances taken off, this is isotonic regression: pool adjacent violators.
    """
    offsets = [0.0]
    for one, other in itertools.pairwise(row):
        offsets.append(offsets[-1] + (sizes[one] + sizes[other]) / 2 + GAP)
    blocks: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets, strict=False):
        mean, count = want - offset, 1
        while blocks and blocks[-1][0] > mean:
            earlier, many = blocks.pop()
            mean, count = (earlier * many + mean * count) / (many + count), many + count
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    return {stop: means[at] + offsets[at] for at, stop in enumerate(row)}


def _points(
    chain: Chain, xs: Mapping[str, float], ys: Mapping[str, float], nodes: set[str]
) -> list[tuple[float, float]]:
    points = []
    for at, stop in enumerate(chain.stops):
        shift = (NODE_HEIGHT / 2 if at == 0 else -NODE_HEIGHT / 2) if stop in nodes else 0.0
        points.append((xs[stop], ys[stop] + shift))
    return points[::-1] if chain.backwards else points
