"""Wall time by node: side by side counts once in what elapsed, and adds up in the total."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.towns import planned, reader, run
from tests.scripted import ScriptedChat

from ragweave.evaluation.runs import records_of
from ragweave.evaluation.runs.stream import Stopwatch

SPANS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(sorted), min_size=1)


@given(SPANS)
def test_elapsed_is_the_length_of_the_union(spans: list[list[int]]) -> None:
    watch = Stopwatch()
    for began, result in spans:
        watch("node", began, result)
    covered = {second for began, result in spans for second in range(began, result)}
    assert watch.plain()["node"] == {
        "runs": len(spans),
        "elapsed": len(covered),
        "total": sum(result - began for began, result in spans),
    }


def test_branches_side_by_side(tmp_path: Path) -> None:
    class Slow(ScriptedChat):
        async def _agenerate(self, messages, *args, **kwargs):  # type: ignore[no-untyped-def]
            await asyncio.sleep(0.2)
            return await super()._agenerate(messages, *args, **kwargs)

    directory = planned(tmp_path, "post_fusion[k=2]", count=1)
    run(directory, Slow(replies=["1900"]))
    (record,) = records_of([directory.results])
    took = record["node_seconds"]
    assert list(took) == ["begin", "retrieve", "collect", "post_fusion", "vote"]
    asked = took["post_fusion"]
    assert asked["runs"] == 2
    assert asked["total"] >= 0.4
    assert 0.2 <= asked["elapsed"] < asked["total"] - 0.05
    assert asked["elapsed"] <= record["seconds"]


def test_a_failed_question_tells_where_its_time_went(tmp_path: Path) -> None:
    directory = planned(tmp_path, "direct", count=1)
    run(directory, ScriptedChat(replies=lambda _seen: ValueError("broken")))
    (record,) = records_of([directory.results])
    assert record["error"]
    assert "direct" in record["node_seconds"]


@pytest.mark.parametrize("method", ["concat_pf[k=2]", "blendfilter[k=2]", "slimplm", "iter_retgen"])
def test_every_node_with_calls_has_its_time(method: str, tmp_path: Path) -> None:
    directory = planned(tmp_path, method, count=1)
    run(directory, reader())
    (record,) = records_of([directory.results])
    assert set(record["usage"]["by_node"]) <= set(record["node_seconds"])
