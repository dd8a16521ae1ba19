"""A run that an earlier version began opens, and goes on to its end.

`begun_run` was written before the journal was shared with labelling: five records, the fifth
question half answered (its state dumped as SQL), a sixth line cut off by a kill.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from tests.evaluation.towns import reader, records, run

from ragweave.evaluation.runs import RunDirectory

BEGUN = Path(__file__).with_name("begun_run")


def begun(folder: Path) -> RunDirectory:
    run_folder = folder / "run"
    run_folder.mkdir()
    shutil.copy(BEGUN / "towns.jsonl", folder)
    shutil.copy(BEGUN / "results.jsonl", run_folder)
    text = (BEGUN / "run.json").read_text("utf-8").replace("FOLDER", str(folder))
    (run_folder / "run.json").write_text(text, "utf-8")
    state = sqlite3.connect(run_folder / "state.sqlite")
    state.executescript((BEGUN / "state.sql").read_text("utf-8"))
    state.close()
    for lock in ("lock", "state.lock"):
        (run_folder / lock).write_text("", "utf-8")
    return RunDirectory(run_folder)


def test_it_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    before = directory.results.read_bytes()
    whole = before[: before.rfind(b"\n") + 1]
    model = reader()
    result = run(directory, model, concurrency=1)
    assert result.complete
    assert (result.progress.answered, result.progress.failed) == (7, 1)
    assert directory.results.read_bytes().startswith(whole)
    assert len(records(directory)) == 8
    paid = sum(one["spent"]["paid"]["answer"]["calls"] for one in records(directory)[4:])
    assert paid == len(model.seen) + 2  # the third question's calls of before are counted on


def test_what_had_failed_is_tried_again_when_asked(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    result = run(directory, reader(), retry_failed=True)
    assert (result.progress.answered, result.progress.failed) == (8, 0)
    assert len(records(directory)) == 8
