"""The questions that the papers asked, by the specs of data sets."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.evaluation.files import write_lines

from ragweave.datasets import open_dataset
from ragweave.datasets.subsets import SUBSETS, note_of
from ragweave.errors import UsageError
from ragweave.evaluation.runs import RunConfig, claim_directory, parse_systems, plan
from ragweave.evaluation.runs.directory import check_same
from ragweave.evaluation.runs.run import checked


def hotpot(path: Path, count: int) -> Path:
    rows = [
        {
            "_id": f"q{n}",
            "question": f"Who is {n}?",
            "answer": f"a{n}",
            "context": [[f"T{n}", [f"a{n} is {n}."]]],
            "supporting_facts": [[f"T{n}", 0]],
        }
        for n in range(count)
    ]
    return write_lines(path, *rows)


def kilt(path: Path, count: int) -> Path:
    rows = [
        {"id": str(n), "input": f"Who is {n}?", "output": [{"answer": f"a{n}"}]}
        for n in range(count)
    ]
    return write_lines(path, *rows)


def test_blendfilter_asks_the_first_500_of_a_file(tmp_path: Path) -> None:
    file = hotpot(tmp_path / "dev.jsonl", 503)
    dataset = open_dataset(f"hotpotqa:{file}?subset=blendfilter")
    assert [one.id for one in dataset] == [f"q{n}" for n in range(500)]
    assert dataset.size == 500
    assert len(dataset.corpus()) == 503, "what is searched is the whole file's"
    short = hotpot(tmp_path / "short.jsonl", 20)
    with pytest.raises(UsageError, match="holds 20 of 500 questions: blendfilter asks the first"):
        list(open_dataset(f"hotpotqa:{short}?subset=blendfilter"))


def test_slimplm_asks_the_questions_that_its_authors_list(tmp_path: Path) -> None:
    file = kilt(tmp_path / "dev.jsonl", 600)
    wanted = [str(n) for n in range(599, 199, -1)]
    listed = tmp_path / "nq-test-datasetid.json"
    listed.write_text(json.dumps(wanted), "utf-8")
    spec = f"nq:{file}?subset=slimplm&ids={listed}"
    assert [one.id for one in open_dataset(spec)] == sorted(wanted, key=int)
    with pytest.raises(UsageError, match=r"ids=FILE \(user_intent_data/nq/nq-test-datasetid.json"):
        open_dataset(f"nq:{file}?subset=slimplm")
    listed.write_text(json.dumps(["no such id", *wanted[1:]]), "utf-8")
    with pytest.raises(UsageError, match="holds 399 of 400 questions"):
        list(open_dataset(spec))


def test_ids_of_ones_own_must_be_in_the_file(tmp_path: Path) -> None:
    file = kilt(tmp_path / "dev.jsonl", 5)
    listed = tmp_path / "mine.json"
    spec = f"nq:{file}?ids={listed}"
    listed.write_text(json.dumps([3, "1"]), "utf-8")
    assert [one.id for one in open_dataset(spec)] == ["1", "3"]
    listed.write_text(json.dumps(["1", "7", "9"]), "utf-8")
    said = r"holds 1 of 3 questions: .*mine.json lists them \(the id '7' is missing\)"
    with pytest.raises(UsageError, match=said):
        list(open_dataset(spec))


def test_a_seeded_subset_is_the_same_each_time(tmp_path: Path) -> None:
    file = kilt(tmp_path / "dev.jsonl", 50)

    def ids(spec: str) -> list[str]:
        return [one.id for one in open_dataset(f"nq:{file}?{spec}")]

    assert ids("random=7&seed=3") == ids("random=7&seed=3") != ids("random=7&seed=4")
    assert len(ids("random=7")) == 7
    assert ids("random=99") == [str(n) for n in range(50)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("subset=filco&ids=x.json", "no list of ids can be read"),
        ("subset=blendfilter", r"no subset 'blendfilter' of nq; there are .*nq \(slimplm\)"),
        ("random=7&subset=filco", "give random=… or subset=…, not both"),
        ("random=few", "random must be a whole number"),
        ("random=0", "random must be at least 1"),
        ("seed=1", "seed=… goes with random=…"),
        ("question=q", "field names after"),
    ],
)
def test_what_makes_no_subset_is_said(tmp_path: Path, query: str, message: str) -> None:
    file = kilt(tmp_path / "dev.jsonl", 3)
    with pytest.raises(UsageError, match=message):
        open_dataset(f"nq:{file}?{query}")


def test_what_is_not_public_is_said() -> None:
    note = note_of("nq", "nq:/data/dev.json?subset=post_fusion")
    assert "5,892 questions" in note
    assert "does not say which" in note
    assert note_of("nq", "nq:/data/dev.json") == ""
    assert note_of("nq", "nq:/data/dev.json?random=5&seed=2") == "5 random questions, seed 2"
    assert note_of("asqa", "asqa:/a?subset=slimplm&ids=/b/c.json").startswith(
        "slimplm asks a listed"
    )
    assert all(one.size > 0 for one in SUBSETS.values())


def test_a_run_whose_list_of_ids_has_changed_is_not_resumed(tmp_path: Path) -> None:
    file, listed = kilt(tmp_path / "dev.jsonl", 5), tmp_path / "mine.json"
    listed.write_text('["1", "3"]', "utf-8")
    made = plan(f"nq:{file}?ids={listed}", parse_systems("direct"), {"answer": "m"})
    earlier = replace(made, ids_hash="")
    listed.write_text('[3, "1"]', "utf-8")
    for one in (made, earlier):
        checked(one, RunConfig())
    claimed = claim_directory(tmp_path / "run", earlier)
    check_same(claimed, made)
    listed.write_text('["2", "3"]', "utf-8")
    with pytest.raises(UsageError, match="the list of ids has changed since the run began"):
        checked(made, RunConfig())
    listed.write_text('["1", "2", "3"]', "utf-8")
    with pytest.raises(UsageError, match="the list of ids has changed since the run began"):
        checked(earlier, RunConfig())
