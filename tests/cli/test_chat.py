"""`ragweave chat`: questions and commands, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.conftest import run

from ragweave.testing import ModelCall, ScriptedModel

Models = dict[str, ScriptedModel]


def says(call: ModelCall) -> str:
    return "How long is the Old Bridge of Varn?" if "Rewrite the last question" in call.text else "212 metres"


def talk(scripted: Models, kb: Path, *lines: str, args: tuple[str, ...] = (), script: Any = says) -> Any:
    scripted["x"] = ScriptedModel(script=script)
    return run("chat", "--kb", str(kb), "--model", "scripted:x", *args, stdin="\n".join(lines) + "\n")


def test_a_follow_up_is_shown_as_it_was_restated(scripted: Models, kb: Path) -> None:
    done = talk(scripted, kb, "What is the Old Bridge of Varn?", "How long is it?", "/sources", "/quit", "never read")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "212 metres [1]"
    assert "(How long is the Old Bridge of Varn?)" in lines
    assert "Sources" in lines
    assert "never" not in done.stdout


def test_commands(scripted: Models, kb: Path) -> None:
    lines = "How long is the bridge?", "/method concat", "/trace", "How long?", "/trace", "/help"
    done = talk(scripted, kb, *lines, args=("--method", "direct[k=1]"))
    assert done.returncode == 0, done.stderr
    assert "concat\n" in done.stdout
    assert "concat › concat " in done.stdout
    assert "/sources " in done.stdout


def test_a_mistake_is_one_line_and_the_talk_goes_on(scripted: Models, kb: Path) -> None:
    done = talk(scripted, kb, "/sources", "/nope", "/method nope", "How long is the bridge?")
    assert done.returncode == 0
    assert [line.partition(";")[0] for line in done.stderr.splitlines()] == [
        "ragweave: nothing has been asked in this conversation yet",
        "ragweave: there is no command /nope: /help lists them",
        "ragweave: unknown method 'nope'",
    ]
    assert "212 metres" in done.stdout


def test_a_question_from_a_pipe_that_fails_ends_with_1(scripted: Models, kb: Path) -> None:
    done = talk(scripted, kb, "How long is the bridge?", "/method concat", args=("--method", "skr_knn"))
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1


def test_the_last_conversation_goes_on(scripted: Models, kb: Path, tmp_path: Path) -> None:
    scripted["x"] = ScriptedModel(script=says)
    history = {"RAGWEAVE_HISTORY": str(tmp_path / "history.json")}
    given = ("--kb", str(kb), "--model", "scripted:x")
    run("ask", "What is the Old Bridge of Varn?", *given, env=history)
    done = run("chat", "-c", *given, stdin="And how long?\n", env=history)
    assert done.stdout.startswith("(How long is the Old Bridge of Varn?)")
