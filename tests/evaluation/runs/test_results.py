"""Reading the results of a run, those that an earlier version wrote among them."""

from __future__ import annotations

import json
from pathlib import Path

from ragweave.evaluation.runs.directory import records_of


def test_records_of_an_earlier_version_say_whether_they_were_truncated(tmp_path: Path) -> None:
    said = [{"stopped": "rounds"}, {"stopped": ""}, {"truncated": True}]
    rows = [{"at": index, "system": "s", "error": None, **one} for index, one in enumerate(said)]
    path = tmp_path / "results.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    read = list(records_of([path]))
    assert [one["truncated"] for one in read] == [True, False, True]
    assert not any("stopped" in one for one in read)
