"""What a reader must see in a picture; that `docs/diagrams` is current, `make sync` sees to."""

from __future__ import annotations

import pytest
from tests.unsure import UnsureChat

from ragweave import METHODS, build_graph
from ragweave.graphs.build import drawable

NEEDS_LOGPROBS = {"flare", "uncertainty_gate"}


@pytest.mark.parametrize("method", [one.name for one in METHODS.ours()])
def test_the_picture_is_that_of_the_graph_that_runs(method: str) -> None:
    models = {"model": UnsureChat()} if method in NEEDS_LOGPROBS else {}
    drawn = build_graph(method, **models).get_graph().draw_mermaid()
    assert drawn == drawable(method).get_graph().draw_mermaid()


def test_the_fallback_can_be_seen() -> None:
    drawn = build_graph("concat_pf").get_graph().draw_mermaid()
    assert "concat_vote -. &nbsp;unknown&nbsp; .-> post_fusion" in drawn
    assert "concat_vote -. &nbsp;answered&nbsp; .-> __end__" in drawn


def test_the_distillers_edges_can_be_seen() -> None:
    drawn = build_graph("pf_concat").get_graph().draw_mermaid()
    assert "sift -. &nbsp;candidates&nbsp; .-> distill" in drawn
    assert "sift -. &nbsp;all unknown&nbsp; .-> vote" in drawn
