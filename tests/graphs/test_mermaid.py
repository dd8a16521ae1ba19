"""The pictures of the graphs, as the README shows them.

After a deliberate change of a method's wiring, write the new pictures with

    RAGWEAVE_WRITE_SNAPSHOTS=1 pytest tests/graphs/test_mermaid.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragweave import build_graph

SNAPSHOTS = Path(__file__).parent / "snapshots"
EIGHT = [
    "direct",
    "cot",
    "concat",
    "post_fusion",
    "pruning",
    "summary",
    "concat_pf",
    "pf_concat",
]


@pytest.mark.parametrize("method", EIGHT)
def test_the_picture(method: str) -> None:
    drawn = build_graph(method).get_graph().draw_mermaid()
    path = SNAPSHOTS / f"{method}.mmd"
    if os.environ.get("RAGWEAVE_WRITE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")


def test_the_fallback_can_be_seen() -> None:
    drawn = build_graph("concat_pf").get_graph().draw_mermaid()
    assert "concat_vote -. &nbsp;unknown&nbsp; .-> post_fusion" in drawn
    assert "concat_vote -. &nbsp;answered&nbsp; .-> __end__" in drawn


def test_the_distillers_edges_can_be_seen() -> None:
    drawn = build_graph("pf_concat").get_graph().draw_mermaid()
    assert "sift -. &nbsp;candidates&nbsp; .-> distill" in drawn
    assert "sift -. &nbsp;all unknown&nbsp; .-> vote" in drawn
