"""Where everything stands: rows from `layers`, then places within the rows."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ragweave.tools.drawing.layers import Chain, Rows, neighbours, rows_of
from ragweave.tools.drawing.shape import Line, Shape

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
