"""A graph as SVG text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from html import escape

from ragweave.tools.drawing.layout import NODE_HEIGHT, Edge, PathTaken, Shape, lay_out

LETTER_WIDTH = 7.4
"""Width of a letter of a node's name, in pixels, generously."""

TANGENT = 9.0
"""How far an edge goes straight, in pixels, as it leaves and arrives."""

STYLE = """\
.rw text{font:13px system-ui,sans-serif;fill:#1d2433;text-anchor:middle;dominant-baseline:central}
.rw .box rect{fill:#eef1fb;stroke:#6b7db8}.rw .end rect{fill:#dfe6d8;stroke:#6f8a5a}
.rw .line{fill:none;stroke:#5b6478;stroke-width:1.3}.rw .choice{stroke-dasharray:5 4}
.rw .head{fill:#5b6478}.rw .label{font-size:11px;fill:#49506a;stroke:#fff;stroke-width:4px;
paint-order:stroke}.rw .off{opacity:.34}.rw .on rect{fill:#ffe3b8;stroke:#b86a00;stroke-width:2}
.rw .line.on{stroke:#b86a00;stroke-width:2.6}.rw a{cursor:pointer}"""


def draw_svg(
    shape: Shape,
    *,
    title: str,
    taken: PathTaken | None = None,
    links: Mapping[str, str] | None = None,
) -> str:
    """Draw a shape as one `<svg>` element that needs nothing from elsewhere.

    Args:
        shape: What to draw; dashed edges are choices.
        title: What the picture shows, for those who cannot see it.
        taken: What a run took of it: marked, the rest faint.
        links: Where a click on a node leads, by its name.
    """
    names = {node: _name(node, taken) for node in shape.nodes}
    widths = {node: len(name) * LETTER_WIDTH + 26 for node, name in names.items()}
    layout = lay_out(shape, widths)
    parts = [_edge(edge, points, taken) for edge, points in layout.paths]
    parts += [_label(edge, x, y, taken) for edge, x, y in layout.labels]
    for node, box in layout.boxes.items():
        drawn = _box(node, names[node], box, taken)
        link = (links or {}).get(node)
        parts.append(f'<a href="{escape(link)}">{drawn}</a>' if link else drawn)
    parts += [
        _loop(edge, layout.boxes[edge.source], taken)
        for edge in shape.edges
        if edge.source == edge.target
    ]
    width, height = round(layout.width), round(layout.height)
    return (
        f'<svg class="rw" xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" '
        f'height="{height}" viewBox="0 0 {width} {height}"><title>{escape(title)}</title>'
        f'<style>{STYLE}</style><defs><marker id="rw-head" viewBox="0 0 8 8" refX="7" refY="4" '
        f'markerUnits="userSpaceOnUse" markerWidth="9" markerHeight="9" orient="auto">'
        f'<path class="head" d="M0 0 8 4 0 8z"/></marker></defs>'
        f'<rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>'
    )


def _name(node: str, taken: PathTaken | None) -> str:
    name = node.strip("_") if node in ("__start__", "__end__") else node
    times = taken.nodes.get(node, 0) if taken else 0
    return f"{name} ×{times}" if times > 1 else name


def _state_class(on: bool, taken: PathTaken | None) -> str:
    if taken is None:
        return ""
    return " on" if on else " off"


def _box(node: str, name: str, box: tuple[float, float, float], taken: PathTaken | None) -> str:
    x, y, width = box
    end = node in ("__start__", "__end__")
    kind = ("end" if end else "box") + _state_class(bool(taken and node in taken.nodes), taken)
    radius = NODE_HEIGHT / 2 if end else 7
    return (
        f'<g class="{kind}"><rect x="{x - width / 2:.1f}" y="{y - NODE_HEIGHT / 2:.1f}" '
        f'width="{width:.1f}" height="{NODE_HEIGHT:.0f}" rx="{radius:.0f}"/>'
        f'<text x="{x:.1f}" y="{y:.1f}">{escape(name)}</text></g>'
    )


def _edge(edge: Edge, points: Sequence[tuple[float, float]], taken: PathTaken | None) -> str:
    """Draw a smooth curve through the points that leaves and arrives upright."""
    slopes = [(0.0, 0.0)] * len(points)
    for at in range(1, len(points) - 1):
        (x, y), (to_x, to_y) = points[at - 1], points[at + 1]
        slopes[at] = ((to_x - x) / 6, (to_y - y) / 6)
    down = 1 if points[-1][1] > points[0][1] else -1
    slopes[0] = slopes[-1] = (0.0, down * TANGENT)
    path = "M{:.1f} {:.1f}".format(*points[0])
    for at, ((x, y), (to_x, to_y)) in enumerate(itertools.pairwise(points)):
        (out_x, out_y), (in_x, in_y) = slopes[at], slopes[at + 1]
        path += (
            f"C{x + out_x:.1f} {y + out_y:.1f} {to_x - in_x:.1f} {to_y - in_y:.1f} "
            f"{to_x:.1f} {to_y:.1f}"
        )
    return f'<path class="{_kind(edge, taken)}" d="{path}" marker-end="url(#rw-head)"/>'


def _loop(edge: Edge, box: tuple[float, float, float], taken: PathTaken | None) -> str:
    x, y, width = box
    right = x + width / 2
    path = f"M{right:.1f} {y - 7:.1f}c26 -10 26 24 0 14"
    return f'<path class="{_kind(edge, taken)}" d="{path}" marker-end="url(#rw-head)"/>'


def _kind(edge: Edge, taken: PathTaken | None) -> str:
    on = bool(taken and (edge.source, edge.target) in taken.edges)
    return "line" + (" choice" if edge.conditional else "") + _state_class(on, taken)


def _label(edge: Edge, x: float, y: float, taken: PathTaken | None) -> str:
    on = taken is None or (edge.source, edge.target) in taken.edges
    kind = "label" if on else "label off"
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(edge.label)}</text>'
