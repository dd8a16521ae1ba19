"""The majority vote."""

from __future__ import annotations

import pytest

from ragweave.graphs import build_graph
from ragweave.testing import ModelCall, ScriptedModel


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        ({"one": "Ada", "two": "Bob", "three": "Bob."}, "Bob"),
        ({"one": "Ada", "two": "Bob", "three": "Cara"}, "Ada"),
        ({"one": "Unknown", "two": "Bob", "three": "Unknown"}, "Bob"),
        ({"one": "Unknown", "two": "Unknown", "three": "Unknown"}, "Unknown"),
    ],
    ids=["majority", "a tie goes to the best-ranked passage", "Unknown has no vote", "nothing to vote on"],
)
def test_post_fusion_votes(replies: dict[str, str], answer: str) -> None:
    def script(call: ModelCall) -> str:
        return next(reply for passage, reply in replies.items() if f"passage {passage}" in call.text)

    graph = build_graph("post_fusion", model=ScriptedModel(script=script))
    out = graph.invoke({"question": "Who?", "passages": [f"This is passage {name}." for name in replies]})
    assert out["answer"] == answer
