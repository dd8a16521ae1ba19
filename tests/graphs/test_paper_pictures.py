"""The pictures of the three papers' graphs and of `adaptive`, as documents show them.

After a deliberate change of a method's wiring, write the new pictures with

    RAGWEAVE_WRITE_SNAPSHOTS=1 pytest tests/graphs/test_paper_pictures.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ragweave import build_graph

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("method", ["blendfilter", "slimplm", "filco", "adaptive"])
def test_the_picture(method: str) -> None:
    drawn = build_graph(method).get_graph().draw_mermaid()
    path = SNAPSHOTS / f"{method}.mmd"
    if os.environ.get("RAGWEAVE_WRITE_SNAPSHOTS"):
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")
