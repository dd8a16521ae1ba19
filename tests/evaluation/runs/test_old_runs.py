"""A run that an earlier version began is resumed, reported and compared.

`begun_run` was written before the journal was shared with labelling: five records, the fifth
question half answered (its state dumped as SQL), a sixth line cut off by a kill.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.towns import planned, reader, records, run, towns

from ragweave.errors import UsageError
from ragweave.evaluation.report import between_table, read_runs, tables_of, write_report
from ragweave.evaluation.runs import (
    RunConfig,
    RunDirectory,
    RunSettings,
    claim_directory,
    parse_systems,
    plan,
)
from ragweave.evaluation.runs.run import checked
from ragweave.evaluation.runs.settings import FORMAT

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


def test_it_is_reported_though_its_records_lack_what_came_later(tmp_path: Path) -> None:
    directory = begun(tmp_path)
    run(directory, reader(), concurrency=1)
    kept = [json.loads(line) for line in directory.results.read_text("utf-8").splitlines()]
    assert not any("gold_found" in one for one in kept[:5])
    (experiment,) = read_runs([directory.path])
    tables = {table.title.partition(":")[0]: table for table in tables_of(experiment)}
    assert [row[0] for row in tables["run"].rows] == ["direct", "concat_pf[k=2]"]
    assert {"EM", "Recall"} <= {*tables["run"].head, *tables["Passages"].head}
    write_report(tmp_path / "report", [experiment], plots=False)
    assert "concat_pf" in (tmp_path / "report" / "report.md").read_text("utf-8")


def test_it_is_compared_with_a_run_of_today(tmp_path: Path) -> None:
    old = begun(tmp_path)
    systems = parse_systems("direct,concat_pf[k=2]")
    made = plan(f"jsonl:{tmp_path / 'towns.jsonl'}", systems, {"answer": "scripted"}, seed=1)
    new = claim_directory(tmp_path / "new", made)
    run(new, reader())
    table = between_table(read_runs([old.path, new.path]))
    assert table is not None
    assert table.rows[0][0] == "direct: run − new"


def with_gold(folder: Path) -> RunDirectory:
    """Return the run as if it had begun with --gold, which then gave passages to every method."""
    directory = begun(folder)
    file = directory.path / "run.json"
    settings = json.loads(file.read_text("utf-8")) | {"gold": "with"}
    file.write_text(json.dumps(settings), "utf-8")
    return directory


def test_a_run_of_format_1_with_gold_is_reported(tmp_path: Path) -> None:
    (experiment,) = read_runs([with_gold(tmp_path).path])
    assert (experiment.settings.format, experiment.settings.passages) == (1, "given")
    assert tables_of(experiment)[0].rows


def test_a_run_of_format_1_with_gold_is_not_resumed(tmp_path: Path) -> None:
    directory, model = with_gold(tmp_path), reader()
    before = directory.results.read_bytes()
    with pytest.raises(UsageError, match="it can be reported, but not resumed"):
        run(directory, model)
    assert (directory.results.read_bytes(), model.seen) == (before, [])


def of_format(
    number: int, folder: Path, methods: str, model: str = "m", **more: Any
) -> RunSettings:
    """Return today's settings as a run of an earlier format had them, read anew."""
    folder.mkdir(exist_ok=True)
    made = plan(f"jsonl:{towns(folder, 2)}", parse_systems(methods), {"answer": model}, **more)
    values = made.plain() | {"format": number}
    if number == 1:
        del values["passages"]
    return RunSettings.from_plain(json.loads(json.dumps(values)))


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("methods", "more", "was"),
    [
        ("direct,filco", {}, "filco: .*top=1"),
        ("filco[filter=strinc]", {}, "top=1"),
        ("filco[filter=cxmi]", {}, "top=1"),
        ("filco[filter=recomp]", {}, "top=1"),
        ("filco[filter=recomp,encoder=minilm]", {}, "top=1"),
        ("filco", {"oracle": True}, ""),
        ("filco[filter=strinc]", {"oracle": True}, ""),
        ("filco[filter=recomp]", {"oracle": True}, "top=1"),
        ("filco[top=1]", {}, ""),
        ("filco[top=none]", {}, ""),
        ("filco[filter=full]", {}, ""),
        ("filco[filter=llm]", {}, ""),
        ("filco[filter=recomp,encoder=gte]", {}, ""),
        ("filco[profile=paper]", {}, ""),
        ("adaptive", {}, ""),
        ("concat[top_p=0.5]", {}, "sample_temperature=0"),
        ("concat[top_p=1]", {"model": "openai:m?temperature=0.0"}, "sample_temperature=0"),
        ("concat[top_p=1]", {"model": "openai:m?temperature=0.7"}, ""),
        ("concat[top_p=0]", {}, ""),
        ("concat[top_p=0.5,samples=2]", {}, ""),
        ("concat[top_p=0.5,sample_temperature=0.2]", {}, ""),
        ("direct[profile=slimplm]", {}, ""),
    ],
)
def test_systems_that_meant_something_else_are_not_gone_on_with(
    number: int, methods: str, more: dict[str, Any], was: str, tmp_path: Path
) -> None:
    checked(of_format(FORMAT, tmp_path, methods, **more), RunConfig())
    earlier = of_format(number, tmp_path, methods, **more)
    if was:
        assert earlier.format == number
        with pytest.raises(UsageError, match=f"{was}.*can be reported, but not resumed") as caught:
            checked(earlier, RunConfig())
        assert "\n" not in str(caught.value)
    else:
        assert earlier.format == FORMAT
        checked(earlier, RunConfig())


def test_the_same_command_over_such_a_run_says_why_it_is_refused(tmp_path: Path) -> None:
    directory = planned(tmp_path, "filco", count=2)
    run(directory, reader())
    file = directory.path / "run.json"
    file.write_text(json.dumps(directory.settings.plain() | {"format": 2}), "utf-8")
    assert read_runs([directory.path])[0].settings.format == 2
    with pytest.raises(UsageError, match="filco: the run began in an earlier version"):
        planned(tmp_path, "filco", count=2)
