"""The pictures of the baselines' graphs: loops are drawn as loops.

After a deliberate change of a method's wiring, write the new pictures with

    RAGWEAVE_WRITE_SNAPSHOTS=1 pytest tests/graphs/test_baseline_pictures.py
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unsure import UnsureChat

from ragweave.graphs import build_graph

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize(
    "method", ["iter_retgen", "self_ask", "react", "flare", "self_eval", "skr_knn"]
)
def test_the_picture(method: str) -> None:
    drawn = build_graph(method, model=UnsureChat()).get_graph().draw_mermaid()
    path = SNAPSHOTS / f"{method}.mmd"
    if os.environ.get("RAGWEAVE_WRITE_SNAPSHOTS"):
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")
