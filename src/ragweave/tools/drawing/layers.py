"""Layers of a drawing: which row each node stands on, and in which order.

Source: Sugiyama, Tagawa and Toda 1981 (Methods for Visual Understanding of Hierarchical System
Structures): break cycles, take longest paths as rows, pad long edges, sort rows by barycentre.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ragweave.tools.drawing.shape import Line, Shape

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
