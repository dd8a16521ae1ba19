"""Paired tests between two runs: by question, whichever each run selected."""

from __future__ import annotations

import json
from pathlib import Path

from tests.evaluation.files import write_json
from tests.evaluation.towns import reader, run, towns
from tests.scripted import ScriptedChat

from ragweave.evaluation.report import between_table, read_runs, write_report
from ragweave.evaluation.runs import claim_directory, parse_systems, plan, system

GIVEN = {"context": [["Towers", ["They are old."]]], "supporting_facts": [["Towers", 0]]}


def over(file: Path, query: str, name: str, *right: str) -> Path:
    """Run over a selection of a file; the model knows the answers to the questions `right`."""
    made = plan(f"hotpotqa:{file}{query}", [system("direct")], {"answer": "scripted"})
    directory = claim_directory(file.parent / name, made)
    known = ScriptedChat(
        replies=lambda seen: next((one for one in right if f"tower {one}?" in seen.text), "Unknown")
    )
    run(directory, known)
    return directory.path


def towers(folder: Path) -> Path:
    rows = [
        {"_id": one, "question": f"Who built tower {one}?", "answer": one, **GIVEN}
        for one in ("A1", "B2", "C3", "D4")
    ]
    return write_json(folder / "hotpot.json", rows)


def test_questions_are_paired_by_id_where_runs_select_others(tmp_path: Path) -> None:
    file = towers(tmp_path)
    first = write_json(tmp_path / "first.json", ["A1", "B2", "C3"])
    last = write_json(tmp_path / "last.json", ["B2", "C3", "D4"])
    paths = [
        over(file, f"?ids={first}", "first", "B2", "C3"),
        over(file, f"?ids={last}", "last", "B2", "C3"),
    ]
    table = between_table(read_runs(paths))
    assert table is not None
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert (row["difference"], row["n"]) == ("+0.0", "2")


def test_selections_without_a_question_in_common_are_not_compared(tmp_path: Path) -> None:
    file = towers(tmp_path)
    paths = [
        over(file, f"?ids={write_json(tmp_path / f'{one}.json', [one])}", one)
        for one in ("A1", "B2")
    ]
    assert between_table(read_runs(paths)) is None


def test_two_splits_of_a_hub_data_set_are_two_sources(tmp_path: Path) -> None:
    paths = [over(towers(tmp_path / one), "", one) for one in ("train", "validation")]
    for path, query in zip(paths, ("?split=train", ""), strict=True):
        file = path / "run.json"
        said = json.loads(file.read_text("utf-8"))
        said |= {"dataset": f"hf:towers{query}", "dataset_hash": "hf:towers"}
        file.write_text(json.dumps(said), "utf-8")
    assert between_table(read_runs(paths)) is None


def test_the_same_method_in_two_runs_is_compared_question_by_question(tmp_path: Path) -> None:
    data, found = f"jsonl:{towns(tmp_path, 6)}", []
    for name, said in (("good", reader()), ("bad", ScriptedChat(replies=["1492"]))):
        made = plan(data, parse_systems("direct,concat[k=1]"), {"answer": name})
        directory = claim_directory(tmp_path / name, made)
        run(directory, said)
        found.append(directory.path)
    table = between_table(read_runs(found))
    assert table is not None
    rows = {row[0]: row for row in table.rows}
    assert rows["concat[k=1]: good − bad"][1:4] == ["EM", "+100.0", "[+100.0, +100.0]"]
    assert rows["direct: good − bad"][2] == "+0.0"
    write_report(tmp_path / "out", read_runs(found), plots=False)
    for name in ("report.md", "report.html"):
        assert "Between runs" in (tmp_path / "out" / name).read_text("utf-8")
