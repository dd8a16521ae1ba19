from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scripted import ScriptedChat
from tests.training.labels.rows import SLIMPLM, label, made, read, write

from ragweave.errors import UsageError
from ragweave.tools.neighbours import label_training
from ragweave.training.labels import JudgeLabeler
from ragweave.training.labels.labeler import RowLabel, down_sample
from ragweave.training.rows import read_rows

DRAFT = "llama7b_without_search_answer"
CITY = {"id": "a", "question": "Which city?", "answers": ["Paris", "City of Light"], "d": "Paris."}


def by_field(**settings: Any) -> JudgeLabeler:
    return JudgeLabeler(draft="d", **{"balance": False, **settings})


def one(tmp_path: Path, row: Any, **settings: Any) -> dict[str, Any]:
    (row,) = made(write(tmp_path / "qa.jsonl", [row]), by_field(**settings))
    return row  # type: ignore[no-any-return]


def test_any_name_of_an_answer_counts(tmp_path: Path) -> None:
    row = one(tmp_path, CITY)
    assert (row["known"], row["match_ratio"]) == (True, 1.0)
    assert row["answers"] == [["Paris", "City of Light"]]


def test_names_may_count_apart_as_in_the_authors_labels(tmp_path: Path) -> None:
    row = one(tmp_path, CITY, aliases="apart")
    assert (row["known"], row["match_ratio"]) == (False, 0.5)
    assert one(tmp_path, CITY, aliases="apart", theta=0.4)["known"]


def test_the_authors_own_rows_count_apart_by_themselves(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Q?", "answer": ["Paris", "City of Light"], DRAFT: "Paris."}
    (made_row,) = made(
        write(tmp_path / "qa.jsonl", [row]), JudgeLabeler(draft=DRAFT, balance=False)
    )
    assert made_row["known"] is False


def test_several_answers_with_names_of_their_own(tmp_path: Path) -> None:
    gold = [["Phobos", "Mars I"], ["Deimos"], 1877]
    row = {"id": "a", "question": "Moons, and when?", "answers": gold, "d": "Mars I, in 1877"}
    read_row = one(tmp_path, row)
    assert read_row["match_ratio"] == pytest.approx(2 / 3, abs=1e-6)
    assert read_row["answers"] == [["Phobos", "Mars I"], ["Deimos"], [1877]]


def test_a_null_among_the_names_is_left_out(tmp_path: Path) -> None:
    for gold in (["Paris", None], [["Paris", None]]):
        assert one(tmp_path, {**CITY, "answers": gold})["answers"] == [["Paris"]]


def test_labels_can_be_made_again_from_the_rows_with_another_theta(tmp_path: Path) -> None:
    rows = [{**CITY, "answers": [["Paris"], ["Rome"]]}]
    first = made(write(tmp_path / "qa.jsonl", rows), by_field())
    again = made(
        write(tmp_path / "judge.jsonl", first),
        JudgeLabeler(draft="draft", gold="answers", theta=0.4, balance=False),
    )
    assert (first[0]["known"], again[0]["known"]) == (False, True)
    assert again[0]["match_ratio"] == first[0]["match_ratio"] == 0.5


NAMES = ["Ann Lee", "Ann B. Lee", "Annie L."]


@pytest.mark.parametrize(
    ("row", "draft", "aliases"),
    [
        ({"answer": NAMES, DRAFT: "It was Ann Lee."}, DRAFT, "auto"),
        ({"answer": ["no"], DRAFT: "Nobody knows."}, DRAFT, "auto"),
        ({"answers": NAMES, "d": "It was Ann Lee."}, "d", "auto"),
        ({"answers": NAMES, "d": "It was Ann Lee."}, "d", "apart"),
    ],
)
def test_a_draft_has_one_label_however_it_is_labelled(
    row: dict[str, Any], draft: str, aliases: str, tmp_path: Path
) -> None:
    row = {"id": "a", "question": "Who?", **row}
    file = write(tmp_path / "qa.jsonl", [row])
    first = made(file, JudgeLabeler(draft=draft, aliases=aliases, balance=False))
    judged = write(tmp_path / "judge.jsonl", first)
    for gold in ("answers", None):
        again = made(judged, JudgeLabeler(draft="draft", gold=gold, balance=False))
        for name in ("known", "match_ratio", "answers"):
            assert again[0][name] == first[0][name]
    del first[0]["source"]["aliases"]  # as earlier versions wrote it
    if aliases == "auto":
        (again,) = made(write(judged, first), JudgeLabeler(draft="draft", balance=False))
        assert again["known"] is first[0]["known"]
    gold = "answer" if "answer" in row else "answers"
    (needed,) = label_training([row], draft=draft, gold=gold, aliases=aliases)
    assert needed["needed"] is not first[0]["known"]


def test_rows_that_are_labelled_again_are_balanced_by_their_data_sets(tmp_path: Path) -> None:
    rows = [
        {
            "id": f"{data}{number}",
            "question": f"{data} {number}?",
            "draft": "x" if number < known else "none",
            "answers": ["x"],
            "source": {"data": data, "row": str(number)},
        }
        for data, known in (("hotpotqa", 3), ("nq", 1))
        for number in range(4)
    ]
    labeler = JudgeLabeler(draft="draft", gold="answers")
    done = label(write(tmp_path / "judge.jsonl", rows), labeler, tmp_path / "out.jsonl")
    assert {row["source"]["data"] for row in read(done.path)} == {"hotpotqa", "nq"}
    for counted in done.counts.values():
        assert (counted["known"], counted["unknown"], counted["dropped"]) == (1, 1, 2)


def test_an_empty_draft_is_not_known_and_counted(tmp_path: Path) -> None:
    done = label(
        write(tmp_path / "qa.jsonl", [{**CITY, "d": "  "}]), by_field(), tmp_path / "out.jsonl"
    )
    assert done.total("empty drafts") == done.total("unknown") == 1
    (row,) = read_rows(done.path, "judge")
    assert (row["draft"], row["known"]) == ("", False)  # type: ignore[typeddict-item]


def test_a_proxy_drafts_with_the_papers_settings(tmp_path: Path) -> None:
    proxy = ScriptedChat(replies=["<think>hm</think>It is Paris."])
    labeler = JudgeLabeler(proxy=proxy, proxy_spec="openai:m?api_key=sk-1", balance=False)
    (row,) = made(write(tmp_path / "qa.jsonl", [CITY]), labeler)
    assert (row["draft"], row["known"]) == ("It is Paris.", True)
    assert proxy.seen[0].text == "Which city?"
    assert proxy.seen[0].settings == {"temperature": 0.01, "top_p": 0.85, "max_tokens": 512}
    assert row["source"] == {
        "data": "plain",
        "sha256": row["source"]["sha256"],
        "row": "a",
        "draft": "openai:m?api_key=***",
        "label": "match ratio",
        "theta": 0.5,
        "aliases": "together",
    }


def test_labels_that_the_file_has(tmp_path: Path) -> None:
    rows = [{"id": "a", "question": "Why?", "d": "Because.", "known": True}]
    (row,) = made(write(tmp_path / "qa.jsonl", rows), by_field(known="known"))
    assert row["known"] is True
    assert "match_ratio" not in row


def test_yes_or_no_is_dropped_for_no_ratio_tells_of_it(tmp_path: Path) -> None:
    rows = [CITY, {"id": "b", "question": "Is it?", "answers": ["no"], "d": "Nobody knows."}]
    done = label(write(tmp_path / "qa.jsonl", rows), by_field(), tmp_path / "out.jsonl")
    assert [row["id"] for row in read(done.path)] == ["a"]
    assert sum(done.dropped.values()) == 1


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": "b", "question": "Q?", "answers": [], "d": ""}, "the gold answer is missing"),
        ({"id": "b", "question": "Q?", "d": ""}, "no short gold answers"),
        ({"id": "b", "question": "Q?", "answers": [[None]], "d": ""}, "the gold answer is missing"),
        ({"id": "b", "question": "Q?", "answers": [[True]], "d": ""}, "strings or numbers alone"),
        ({"id": "b", "question": "Q?", "answers": ["x"]}, "no text in 'd'"),
        ({"id": "b", "answers": ["x"], "d": ""}, "found the fields id, answers, d"),
        ({"id": "a", "question": "Q?", "answers": ["x"], "d": ""}, "'a' appears twice"),
    ],
)
def test_a_bad_row_is_refused_by_its_line_or_left_out(tmp_path: Path, row: Any, said: str) -> None:
    file, out = write(tmp_path / "qa.jsonl", [CITY, row]), tmp_path / "out.jsonl"
    with pytest.raises(UsageError, match=said) as told:
        label(file, by_field(), out)
    assert f"{file}:2" in str(told.value)
    assert not list(tmp_path.glob("out*"))
    done = label(file, by_field(), out, skip_bad=True)
    assert (done.rows, sum(done.dropped.values()), done.total("dropped")) == (1, 1, 1)


def test_only_bad_rows_are_an_error_all_the_same(tmp_path: Path) -> None:
    file = write(tmp_path / "qa.jsonl", [{"id": "b", "question": "Q?", "answers": [], "d": ""}])
    with pytest.raises(UsageError, match="no row can be labelled"):
        label(file, by_field(), tmp_path / "out.jsonl", skip_bad=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"draft": None}, "give --proxy"),
        ({"proxy": ScriptedChat()}, "give --proxy"),
        ({"theta": 1.5}, "theta must be"),
        ({"aliases": "some"}, "--aliases must be"),
    ],
)
def test_settings_out_of_range(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        by_field(**settings) if "draft" not in settings else JudgeLabeler(**settings)


row_labels = st.lists(st.tuples(st.sampled_from(["nq", "asqa"]), st.booleans()), max_size=40).map(
    lambda drawn: [RowLabel(index, data, known) for index, (data, known) in enumerate(drawn)]
)


@given(row_labels, st.integers(0, 5))
def test_balance_leaves_as_many_known_as_unknown_of_each_data_set(
    drawn: list[RowLabel], seed: int
) -> None:
    left_out = down_sample(drawn, seed)
    assert left_out == down_sample(drawn, seed)
    both = {data for data in ("nq", "asqa") if len({m.known for m in drawn if m.data == data}) == 2}
    if not both:
        assert not left_out
        return
    for data in ("nq", "asqa"):
        sides = [
            {mark.index for mark in drawn if mark.data == data and mark.known is known}
            for known in (True, False)
        ]
        kept = [side - left_out for side in sides]
        assert len(kept[0]) == len(kept[1]) == min(map(len, sides))


def test_what_balance_drops_is_counted_and_the_seed_decides(tmp_path: Path) -> None:
    rows = [
        {
            "id": str(index),
            "question": f"Q{index}?",
            "answers": ["yea"],
            "d": "yea" if index < 3 else "",
        }
        for index in range(20)
    ]
    file = write(tmp_path / "qa.jsonl", rows)
    done = label(file, JudgeLabeler(draft="d"), tmp_path / "out.jsonl")
    assert (done.total("known"), done.total("unknown"), done.total("dropped")) == (3, 3, 14)
    assert done.dropped == {"to balance known and unknown": 14}
    ids = [int(row["id"]) for row in read(done.path)]
    assert ids == sorted(ids)
    other = label(file, JudgeLabeler(draft="d", seed=1), tmp_path / "other.jsonl")
    assert [int(row["id"]) for row in read(other.path)] != ids


@pytest.mark.skipif(not SLIMPLM.exists(), reason="the shared judge data is not beside the project")
@pytest.mark.parametrize("name", ["judge-llama7b-train", "judge-llama7b-dev"])
def test_the_authors_labels_are_met_every_one(tmp_path: Path, name: str) -> None:
    file = SLIMPLM / f"{name}.jsonl.gz"
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        theirs = {str(row["id"]): row["known"] for row in map(json.loads, lines)}
    done = label(file, JudgeLabeler(draft=DRAFT, balance=False), tmp_path / "judge.jsonl")
    ours = {row["id"]: row["known"] for row in read_rows(done.path, "judge")}  # type: ignore[typeddict-item]
    assert ours == theirs
    assert len(ours) == 400


@pytest.mark.skipif(not SLIMPLM.exists(), reason="the shared judge data is not beside the project")
def test_rows_labelled_by_perplexity_or_rouge_keep_their_label(tmp_path: Path) -> None:
    file = SLIMPLM / "judge2-llama7b-val.jsonl.gz"
    with pytest.raises(UsageError, match=r"judge2-llama7b-val.jsonl.gz:\d+: no short gold"):
        label(file, JudgeLabeler(draft=DRAFT), tmp_path / "judge.jsonl")
    done = label(
        file, JudgeLabeler(draft=DRAFT, known="known", balance=False), tmp_path / "judge.jsonl"
    )
    assert done.rows == 400
