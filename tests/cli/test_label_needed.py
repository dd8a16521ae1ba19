"""`ragweave label needed` and what reads its rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import LEXICAL, Run

DATA = Path(__file__).parents[3] / "shared" / "data" / "slimplm" / "judge-llama7b-dev.jsonl.gz"


def test_label_needed_writes_what_skr_knn_reads(ragweave: Run, tmp_path: Path) -> None:
    rows = [
        {"question": "Who wrote Hamlet?", "answers": ["Shakespeare"], "draft": "Shakespeare."},
        {"question": "Who won in Varn?", "answers": ["Ada"], "draft": "I am not sure."},
    ]
    (tmp_path / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    done = ragweave(
        "label", "needed", "qa.jsonl", "--out", "t.jsonl", "--draft", "draft", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "2 questions, of which 1 need retrieval" in done.stdout
    made = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    assert [one["needed"] for one in made] == [False, True]


@pytest.mark.skipif(not DATA.exists(), reason="the shared judge data is not beside the project")
def test_skr_knn_on_real_labels(ragweave: Run, tmp_path: Path, kb: Path) -> None:
    done = ragweave("label", "needed", str(DATA), "--out", "t.jsonl", cwd=tmp_path)
    assert "400 questions, of which 200" in done.stdout
    asked = ragweave(
        *("ask", "When was the Old Bridge opened?", "--kb", str(kb), *LEXICAL),
        *("-m", "skr_knn", "-o", "training=t.jsonl", "--trace"),
        cwd=tmp_path,
    )
    assert asked.returncode == 0, asked.stderr
    assert "neighbours" in asked.stdout


def test_label_mistakes_exit_2(ragweave: Run, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text('{"question": "q"}\n', "utf-8")
    for source, said in (("missing.jsonl", "missing.jsonl"), ("bad.jsonl", "row 1")):
        done = ragweave("label", "needed", source, "--out", "t.jsonl", cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert not (tmp_path / "t.jsonl").exists()
    (tmp_path / "good.jsonl").write_text('{"question": "q", "needed": true}\n', "utf-8")
    done = ragweave("label", "needed", "good.jsonl", "--out", "no/t.jsonl", cwd=tmp_path)
    assert (done.returncode, "no/t.jsonl" in done.stderr) == (2, True)
