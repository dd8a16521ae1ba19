"""`ragweave train` and `ragweave part`: a part made, looked into, used; mistakes in one line."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.command import LEXICAL, Run, started
from tests.tiny_encoder import make_tiny_encoder

pytest.importorskip("torch")
pytest.importorskip("datasets")

KNOWN = "shakespeare wrote hamlet"
UNKNOWN = "i do not know"
PEOPLE = ("poet", "painter", "cat", "dog", "bird", "river", "mountain", "snow")


def judge_row(number: int, *, known: bool, question: str | None = None) -> dict[str, Any]:
    person = PEOPLE[number % len(PEOPLE)]
    return {
        "id": f"r{number}",
        "question": question or f"who is the {person} {number}?",
        "draft": KNOWN if known else UNKNOWN,
        "known": known,
    }


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)), "utf-8")
    return path


@pytest.fixture
def room(tmp_path: Path) -> Path:
    """A folder with rows and a tiny encoder to begin from."""
    make_tiny_encoder(tmp_path / "tiny")
    write(tmp_path / "judge.jsonl", [judge_row(at, known=at % 2 == 0) for at in range(24)])
    return tmp_path


TRAIN = ("train", "judge", "judge.jsonl", "--kind", "cross-encoder", "--base", "tiny")
FAST = ("--epochs", "30", "--learning-rate", "0.003", "--batch", "8", "--set", "micro_batch=8")


def test_a_judge_is_trained_shown_and_used(ragweave: Run, room: Path, kb: Path) -> None:
    done = ragweave(*TRAIN, *FAST, "--out", "judge", cwd=room)
    assert done.returncode == 0, done.stderr
    assert "judge: a judge (cross-encoder) from tiny" in done.stdout
    assert "accuracy" in done.stdout
    assert "--method slimplm --option judge=judge" in done.stderr
    card = ragweave("part", "show", "judge", cwd=room)
    assert "# A judge for ragweave (cross-encoder)" in card.stdout
    assert "judge.jsonl" in card.stdout
    kept = {one.name for one in (room / "judge").iterdir()}
    assert {"part.json", "README.md", "model.safetensors"} <= kept
    assert not kept & {"checkpoints", "training.json"}
    asked = ragweave(
        *("ask", "Who is the poet?", "--kb", str(kb), *LEXICAL, "-m", "slimplm"),
        *("--option", "judge=judge", "--trace"),
        cwd=room,
    )
    assert asked.returncode == 0, asked.stderr
    assert "judge" in asked.stdout
    again = ragweave(*TRAIN, *FAST, "--out", "judge", cwd=room)
    assert again.returncode == 2
    assert "already holds a trained part" in again.stderr


def test_a_dry_run_shows_what_the_model_sees_and_writes_nothing(ragweave: Run, room: Path) -> None:
    done = ragweave(*TRAIN, "--dry-run", "--show", "2", "--out", "judge", cwd=room)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("--- input\n[CLS] who is the ") == 2
    assert "[SEP] shakespeare wrote hamlet [SEP]" in done.stdout
    assert "nothing was trained" in done.stderr
    assert not (room / "judge").exists()


def test_a_router_looks_at_the_knowledge_base_that_is_named(ragweave: Run, room: Path, kb: Path) -> None:
    rows = [
        {
            "id": str(at),
            "question": f"Who built town {at}?",
            "draft": "Ada.",
            "right": dict.fromkeys(("none", "one", "many"), at % 2 == 0),
        }
        for at in range(4)
    ]
    write(room / "outcomes.jsonl", rows)
    train = ("train", "router", "outcomes.jsonl", "--base", "tiny", "--set", "held_out=0")
    done = ragweave(*train, "--kb", str(kb), "--dry-run", "--show", "1", "--out", "r", cwd=room)
    assert done.returncode == 0, done.stderr
    assert "look.found = " in done.stdout


def test_ctrl_c_saves_and_resume_goes_on(ragweave: Run, room: Path) -> None:
    slow = [*TRAIN, *FAST, "--epochs", "4000", "--set", "save_every=5", "--out", "j"]
    with started(*slow, cwd=room, timeout=240) as training:
        until = time.monotonic() + 120
        while not list((room / "j").glob("checkpoints/*")):
            assert training.running, training.ended()
            assert time.monotonic() < until, "no checkpoint after two minutes"
            time.sleep(0.1)
        training.send_signal(signal.SIGINT)
        told = training.ended()
    assert told.returncode == 130, told.stderr
    assert "Traceback" not in told.stderr
    plain = ragweave(*TRAIN, *FAST, "--out", "j", cwd=room)
    assert plain.returncode == 2
    assert "resume it with --resume" in plain.stderr
    other = ragweave(*TRAIN, *FAST, "--resume", "--out", "j", cwd=room)
    assert other.returncode == 2
    assert "epochs: 4000.0, now 30.0" in other.stderr
    used = ragweave("part", "show", "j", cwd=room)
    assert "its training did not finish" in used.stderr


BAD: dict[str, tuple[list[str], str]] = {
    "role": (["poet", "judge.jsonl"], "unknown role 'poet'"),
    "kind": (["judge", "judge.jsonl", "--kind", "tree"], "unknown kind 'tree'; kinds: "),
    "kind for the role": (["rewriter", "judge.jsonl", "--kind", "cross-encoder"], "only as"),
    "no rows": (["judge", "none.jsonl"], "none.jsonl: there is no such file"),
    "one class": (["judge", "known.jsonl"], "all 4 rows are known; a judge needs both"),
    "both sides": (["judge", "judge.jsonl", "--held-out", "held.jsonl"], "held-out row r2, tra"),
    "setting": (["judge", "judge.jsonl", "--set", "speed=3"], "no setting 'speed'; settings: "),
    "range": (["judge", "judge.jsonl", "--epochs", "-1"], "epochs must be above 0"),
    "type": (["judge", "judge.jsonl", "--set", "batch=big"], "batch must be a whole number"),
    "look": (["judge", "judge.jsonl", "--kb", "kb"], "--kb is what a router takes a first look"),
    "form": (["judge", "judge.jsonl", "--set", "batch"], "--set must be name=value"),
    "base": (
        ["judge", "judge.jsonl", "--kind", "seq2seq", "--base", "nobody/nothing"],
        "nobody/nothing is not on this machine",
    ),
    "no rewriter rows": (
        ["rewriter", "judge.jsonl"],
        "judge.jsonl:1: the field 'target' is missing",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_exit_2_and_write_nothing(ragweave: Run, room: Path, case: str) -> None:
    write(room / "known.jsonl", [judge_row(at, known=True) for at in range(5)])
    shared = judge_row(2, known=True)
    write(room / "held.jsonl", [shared, judge_row(90, known=False)])
    args, said = BAD[case]
    done = ragweave("train", *args, "--out", "out", cwd=room)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (room / "out").exists()


def test_a_loss_that_is_no_number_leaves_room_for_another_try(ragweave: Run, room: Path) -> None:
    wild = ragweave(*TRAIN, "--learning-rate", "1e30", "--batch", "2", "--out", "j", cwd=room)
    assert wild.returncode == 1, wild.stderr
    assert "is not finite after step" in wild.stderr
    assert not (room / "j").exists()


def test_small_kinds_of_our_own_are_trained_by_one_process(
    ragweave: Run, room: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    done = ragweave("train", "judge", "judge.jsonl", "--kind", "linear", "--out", "j", cwd=room)
    assert done.returncode == 2
    assert "a linear is trained by one process" in done.stderr
    assert not (room / "j").exists()


def test_parts_of_other_kinds_have_no_onnx_form_or_merge(ragweave: Run, room: Path) -> None:
    done = ragweave("part", "onnx", "tiny", cwd=room)
    assert done.returncode == 2
    assert "is not a trained part" in done.stderr
    done = ragweave("part", "merge", "tiny", "--out", "whole", cwd=room)
    assert done.returncode == 2
