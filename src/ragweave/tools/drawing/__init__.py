"""Diagrams of graphs as SVG text, without JavaScript, fonts or network."""

from ragweave.tools.drawing.layout import Edge, Layout, PathTaken, Shape, lay_out, shape_of
from ragweave.tools.drawing.page import html_page
from ragweave.tools.drawing.svg import draw_svg

__all__ = ["Layout", "Edge", "PathTaken", "Shape", "draw_svg", "html_page", "lay_out", "shape_of"]
