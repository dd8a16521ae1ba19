"""`ragweave tune`, with a scripted model."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import run

from ragweave.testing import ModelCall, ScriptedModel


def write(folder: Path, count: int) -> None:
    texts = folder / "texts"
    texts.mkdir()
    for number in range(count):
        (texts / f"{number}.txt").write_text(f"The dam of valley {number} was opened in {1900 + number}.\n")
    rows = [{"question": f"When was the dam of valley {n} opened?", "answers": [f"{1900 + n}"]} for n in range(count)]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))


def reply(call: ModelCall) -> str:
    """Answer rightly if asked about one passage alone."""
    number = int(call.text.split("dam of valley ")[-1].split(" ")[0])
    return str(1900 + number) if call.node == "post_fusion" else "Unknown"


def test_from_questions_to_an_answer(scripted: dict[str, ScriptedModel], tmp_path: Path) -> None:
    write(tmp_path, 30)
    scripted["x"] = ScriptedModel(script=reply)
    assert run("index", "texts", "--embedding", "none", cwd=tmp_path).returncode == 0
    args = (
        "q.jsonl",
        "--model",
        "scripted:x",
        "--incumbent",
        "concat",
        "--methods",
        "concat_pf",
        "--chunkers",
        "fixed",
    )
    done = run("tune", *args, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "concat_pf gains +100.0 F1" in done.stdout
    assert "it is chosen" in done.stdout
    assert "20 are kept back" in done.stderr
    assert "recall 100.0 at 3" in done.stderr
    page = (tmp_path / "runs" / "tune" / "report.html").read_text()
    for text in ("shown, where it was chosen", "confirmed, on those kept back", "<polyline", "Lost answers", "traces/"):
        assert text in page
    choice = str(tmp_path / "runs" / "tune" / "choice.yaml")
    answer = run("ask", "When was the dam of valley 7 opened?", "--method", choice, cwd=tmp_path.parent)
    assert answer.stdout.startswith("Answer: 1907")
    again = run("tune", *args[:3], "--incumbent", choice, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "concat_pf" in again.stderr


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    write(tmp_path, 15)
    (tmp_path / "few.jsonl").write_text("\n".join((tmp_path / "q.jsonl").read_text().splitlines()[:5]))
    assert run("index", "texts", "--embedding", "none", cwd=tmp_path).returncode == 0
    for args, message in (
        ((), "name one of these"),
        (("few.jsonl",), "5 different questions; tune needs 12"),
        (("q.jsonl", "--objective", "judge:f1"), "f1 has no judge"),
        (("q.jsonl", "--incumbent", "none.yaml"), "none.yaml: cannot be read"),
    ):
        done = run("tune", *args, cwd=tmp_path)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr
