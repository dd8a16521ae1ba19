"""The drawer: any graph comes out readable, inside its frame, as well-formed XML."""

from __future__ import annotations

import itertools
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragweave import METHODS
from ragweave.graphs.build import drawable
from ragweave.tools.drawing import Edge, PathTaken, Shape, draw_svg, lay_out, shape_of

SVG = "{http://www.w3.org/2000/svg}"
NAMES = [f"node_{at}" for at in range(9)]
ends = st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES))
labels = st.sampled_from(["", "a choice", "<b>"])


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    pairs = draw(st.lists(ends, max_size=16, unique=True))
    return Shape(tuple(NAMES), tuple(Edge(*pair, draw(labels), draw(st.booleans())) for pair in pairs))


@given(shapes())
def test_boxes_stand_apart_inside_the_frame(shape: Shape) -> None:
    layout = lay_out(shape, dict.fromkeys(NAMES, 80.0))
    assert set(layout.boxes) == set(NAMES)
    for x, y, width in layout.boxes.values():
        assert width / 2 <= x <= layout.width - width / 2
        assert 0 < y < layout.height
    for (x, y, wide), (other_x, other_y, other_wide) in itertools.combinations(layout.boxes.values(), 2):
        assert y != other_y or abs(x - other_x) >= (wide + other_wide) / 2


@given(shapes())
def test_every_edge_leads_from_its_source_to_its_target(shape: Shape) -> None:
    layout = lay_out(shape, dict.fromkeys(NAMES, 80.0))
    drawn = {edge[:2]: points for edge, points in layout.paths}
    assert set(drawn) == {edge[:2] for edge in shape.edges if edge.source != edge.target}
    for (source, target), points in drawn.items():
        for end, point in ((source, points[0]), (target, points[-1])):
            x, y, _ = layout.boxes[end]
            assert point[0] == pytest.approx(x)
            assert abs(point[1] - y) == pytest.approx(17)


@given(shapes())
def test_it_is_well_formed_with_a_mark_on_what_was_taken(shape: Shape) -> None:
    taken = PathTaken({edge.source: 2 for edge in shape.edges}, frozenset(edge[:2] for edge in shape.edges))
    root = ET.fromstring(draw_svg(shape, title="a & b", taken=taken))
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    assert sum("×2" in text for text in texts) == len(taken.nodes)
    kinds = [path.get("class", "") for path in root.iter(f"{SVG}path")]
    assert sum("line" in kind and " on" in kind for kind in kinds) == len(shape.edges)


@pytest.mark.parametrize("method", list(METHODS))
def test_every_method_can_be_drawn(method: str) -> None:
    shape = shape_of(drawable(method).get_graph())
    assert shape.nodes[0] == "__start__"
    root = ET.fromstring(draw_svg(shape, title=method))
    texts = {text.text for text in root.iter(f"{SVG}text")}
    assert {"start", "end", "begin"} <= texts
    assert {edge.label for edge in shape.edges if edge.label} <= texts


def test_edges_between_two_nodes_are_joined() -> None:
    from langchain_core.runnables.graph import Graph

    graph = Graph()
    one, other = (graph.add_node(_runnable(), id=name) for name in ("one", "other"))
    graph.add_edge(one, other, "left", conditional=True)
    graph.add_edge(one, other, "right", conditional=True)
    assert shape_of(graph).edges == (Edge("one", "other", "left / right", True),)


def _runnable() -> object:
    from langchain_core.runnables import RunnablePassthrough

    return RunnablePassthrough()
