"""What the tests of methods that go round in a loop share."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.errors import GraphRecursionError

from ragweave.graphs import CompiledGraph
from ragweave.state import Note


def final_state(graph: CompiledGraph, question: Any, **more: Any) -> dict[str, Any]:
    """Return the whole state that a run of `question` ends with."""
    given = question if isinstance(question, dict) else {"question": question}
    *_, last = graph.stream(given, stream_mode="values", **more)
    return dict(last)


def events(state: dict[str, Any]) -> list[str]:
    """Return the names of the notes of a run, in order."""
    notes: list[Note] = state["notes"]
    return [note["event"] for note in notes]


def limits_end_quietly(graph: CompiledGraph, least: int, enough: int) -> None:
    """Check that every recursion limit from `least` up ends a run of `graph` with an answer.

    Below `enough` the run says that it was cut short, from there on it goes as without a limit.
    """
    with pytest.raises(GraphRecursionError):
        graph.invoke({"question": "?"}, {"recursion_limit": least - 1})
    free = graph.invoke({"question": "?"})
    for limit in range(least, enough + 3):
        out = graph.invoke({"question": "?"}, {"recursion_limit": limit})
        assert out["status"] == "answered", limit
        if limit < enough:
            assert out["truncated"] is True, limit
        else:
            assert out["truncated"] == free["truncated"], limit
            assert out["usage"]["calls"] == free["usage"]["calls"], limit
