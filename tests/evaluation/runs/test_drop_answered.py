"""`--drop-answered` leaves out the questions that were answered right without context."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.files import write_json
from tests.evaluation.towns import planned, reader, records, run
from tests.scripted import ScriptedChat, Seen

from ragweave.errors import UsageError
from ragweave.evaluation.report import read_runs, tables_of
from ragweave.evaluation.runs import RunDirectory, claim_directory, parse_systems, plan

GIVEN = {"context": [["Towers", ["They are old."]]], "supporting_facts": [["Towers", 0]]}


def knows(seen: Seen) -> str:
    return "1901" if "Lom" in seen.text else "1903" if "Pirra" in seen.text else "Unknown"


def test_what_is_answered_without_context_is_left_out(tmp_path: Path) -> None:
    closed = planned(tmp_path / "closed", "direct")

    with pytest.raises(UsageError, match="finish the run first"):
        planned(tmp_path / "early", "concat[k=1]", drop_answered=closed.path)
    run(closed, ScriptedChat(replies=knows))
    left = planned(tmp_path / "left", "concat[k=1]", drop_answered=closed.path)
    ended = run(left, reader())
    assert ended.complete
    assert [one["at"] for one in records(left)] == [0, 2, 4, 5]
    assert left.settings.planned == 4
    first = planned(tmp_path / "first", "concat[k=1]", drop_answered=closed.path, limit=2)
    run(first, reader())
    assert [one["at"] for one in records(first)] == [0, 2]
    drawn = planned(tmp_path / "drawn", "concat[k=1]", drop_answered=closed.path, sample=3)
    run(drawn, reader())
    assert {one["at"] for one in records(drawn)} < {0, 2, 4, 5}
    with pytest.raises(UsageError, match="has no answers without context"):
        planned(tmp_path / "no", "concat[k=1]", drop_answered=left.path)


def closed_book(folder: Path, **settings: Any) -> RunDirectory:
    directory = planned(folder / "closed", "direct", **settings)
    run(directory, ScriptedChat(replies=knows))
    return directory


@pytest.mark.parametrize("asked", [{"limit": 3}, {"sample": 3}, {"shard": (1, 2)}])
def test_a_run_that_did_not_ask_all_is_refused(tmp_path: Path, asked: dict[str, Any]) -> None:
    closed = closed_book(tmp_path, **asked)
    for given in ({}, asked) if "shard" in asked else ({},):
        with pytest.raises(UsageError, match="did not ask 3 of these 6 questions"):
            planned(tmp_path / "left", "concat[k=1]", drop_answered=closed.path, **given)


def test_questions_that_failed_are_to_be_asked_again(tmp_path: Path) -> None:
    def breaks(seen: Seen) -> str | Exception:
        return ValueError("no") if "Lom" in seen.text else "1900"

    closed = planned(tmp_path / "closed", "direct")
    run(closed, ScriptedChat(replies=breaks))
    with pytest.raises(UsageError, match=r"answered 5 of 6 .* --resume .*run --retry-failed`"):
        planned(tmp_path / "left", "concat[k=1]", drop_answered=closed.path)
    run(closed, ScriptedChat(replies=knows), retry_failed=True)
    left = planned(tmp_path / "left", "concat[k=1]", drop_answered=closed.path)
    assert left.settings.only == (2, 3, 4, 5)


@pytest.mark.parametrize("asked", [{"limit": 3}, {"sample": 3, "seed": 1}])
def test_two_runs_over_the_same_part_go_together(tmp_path: Path, asked: dict[str, Any]) -> None:
    closed = closed_book(tmp_path, **asked)
    left = planned(tmp_path / "left", "concat[k=1]", drop_answered=closed.path, **asked)
    run(left, reader())
    wrong = [one["at"] for one in records(closed) if not one["scores"]["em"]]
    assert [one["at"] for one in records(left)] == wrong
    remarks = " ".join(tables_of(read_runs([left.path])[0])[0].remarks)
    assert f"From the {len(wrong)} of 6 questions that were asked without context" in remarks


def test_questions_are_left_out_by_id_where_runs_select_others(tmp_path: Path) -> None:
    rows = [
        {"_id": f"t{n}", "question": f"When did {town} open?", "answer": year, **GIVEN}
        for n, (town, year) in enumerate((("Varn", "1900"), ("Lom", "1901"), ("Pirra", "1903")))
    ]
    file = write_json(tmp_path / "hotpot.json", rows)
    listed = write_json(tmp_path / "ids.json", ["t1", "t2"])

    def over(query: str, name: str, methods: str, **settings: Any) -> RunDirectory:
        made = plan(
            f"hotpotqa:{file}{query}", parse_systems(methods), {"answer": "scripted"}, **settings
        )
        return claim_directory(tmp_path / name, made)

    part = over(f"?ids={listed}", "part", "direct")
    whole = over("", "whole", "direct")
    for one in (part, whole):
        run(one, ScriptedChat(replies=lambda seen: "1901" if "Lom" in seen.text else "Unknown"))
    with pytest.raises(UsageError, match="did not ask 1 of these 3 questions"):
        over("", "no", "cot", drop_answered=part.path)
    left = over(f"?ids={listed}", "left", "cot", drop_answered=whole.path)
    assert left.settings.only == (1,)  # of t1 and t2, the second
