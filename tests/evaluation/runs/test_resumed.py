"""What a question that was stopped half-way keeps, counts and says of its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from tests.evaluation.towns import planned, reader, records, run
from tests.scripted import ScriptedChat, Seen

from ragweave.evaluation.report import read_runs, tables_of
from ragweave.evaluation.runs import RunDirectory
from ragweave.evaluation.runs.calls import model_call

GATE = "uncertainty_gate[gate=variance,gate_samples=3,k=2]"
DRAFTS = ("Ada Brook.", "Carl Wolf.", "Dora Stein.")


@pytest.mark.parametrize("stop_after", [1, 2])
def test_the_drafts_of_a_gate_stay_apart(stop_after: int, tmp_path: Path) -> None:
    whole = planned(tmp_path / "whole", GATE, count=1)
    run(whole, ScriptedChat(replies=[*DRAFTS, "1900"]))
    cut = planned(tmp_path / "cut", GATE, count=1)
    broken = ScriptedChat(replies=[*DRAFTS[:stop_after], ValueError("the server is gone")])
    assert run(cut, broken).progress.failed == 1
    rest = ScriptedChat(replies=[*DRAFTS[stop_after:], "1900"])
    result = run(cut, rest, retry_failed=True)
    (one,), (other,) = records(cut), records(whole)
    assert one["notes"] == other["notes"]
    assert len(rest.seen) == 4 - stop_after
    assert result.progress.spent.paid_calls == one["usage"]["calls"] == 4


@given(sample=st.integers(0, 50), other=st.integers(0, 50))
def test_samples_have_places_of_their_own(sample: int, other: int) -> None:
    def position(**about: Any) -> str:
        config: Any = {"metadata": {"langgraph_step": 2, "ragweave_node": "gate", **about}}
        return model_call("m", True, [HumanMessage("Who?")], config, {}).position

    mine, another = position(ragweave_sample=sample), position(ragweave_sample=other)
    assert (mine == another) is (sample == other)
    assert position(ragweave_sample=0) == position(), "what earlier versions kept is not found"


def timed(directory: RunDirectory) -> tuple[list[int], list[int], str]:
    """Return the questions whose seconds are reported, those timed by node, and the remarks."""
    (experiment,) = read_runs([directory.path])
    (column,) = experiment.columns.values()
    (table,) = [one for one in tables_of(experiment) if one.title == "Cost"]
    seconds, node = column.costs["seconds"], column.nodes["retrieve"]["elapsed"]
    return sorted(seconds.index), sorted(node.index), " ".join(table.remarks)


def test_a_reply_from_the_cache_takes_no_time_that_is_reported(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    run(planned(tmp_path / "a", "concat[k=2]", count=4, limit=2), reader(), cache=cache)
    directory = planned(tmp_path / "b", "concat[k=2]", count=4)
    assert run(directory, reader(), cache=cache).progress.spent.cached_calls == 2
    seconds, nodes, remarks = timed(directory)
    assert seconds == nodes == [2, 3]
    assert "concat[k=2]: seconds over 2 of 4 questions" in remarks
    seconds, nodes, remarks = timed(RunDirectory(tmp_path / "a" / "run"))
    assert seconds == nodes == [0, 1]
    assert "seconds over" not in remarks


def test_a_question_that_was_gone_on_with_has_no_time_of_its_own(tmp_path: Path) -> None:
    directory = planned(tmp_path, "concat_pf[k=2]", count=3)

    def breaks(seen: Seen) -> str | Exception:
        if len(seen.passages) == 2:
            return "Unknown"
        asked = seen.task["question"] if seen.task else ""
        return ValueError("broken") if "Lom" in asked else "1900"

    assert run(directory, ScriptedChat(replies=breaks)).progress.failed == 1
    assert run(directory, reader(), retry_failed=True).progress.failed == 0
    seconds, nodes, remarks = timed(directory)
    assert seconds == nodes == [0, 2]
    assert "concat_pf[k=2]: seconds over 2 of 3 questions" in remarks
