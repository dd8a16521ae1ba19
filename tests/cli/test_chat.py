"""A conversation in the terminal, and follow-ups between commands."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.command import Run
from tests.openai_server import OpenAIServer
from tests.scripted import ScriptedChat, Seen

from ragweave.cli.ask import ask
from ragweave.cli.chat import chat
from ragweave.cli.conversation import conversation_file, keep_conversation, read_conversation
from ragweave.errors import ModelError, UsageError
from ragweave.tools.models import MODELS, ModelProvider

LEXICAL = "extractive?similarity=lexical"
OPENED, LENGTH = "When was the Old Bridge opened?", "How long is it?"
Talk = Callable[..., tuple[str, str]]


@pytest.fixture(autouse=True)
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAGWEAVE_HISTORY", str(tmp_path / "state" / "talk.json"))
    return tmp_path / "state" / "talk.json"


@pytest.fixture
def talk(kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    def run(*lines: str, again: bool = False) -> tuple[str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
        chat(follow_up=again, kb=kb, model=LEXICAL)
        said = capsys.readouterr()
        return said.out, said.err

    return run


def test_a_follow_up_is_understood_and_quoted(talk: Talk) -> None:
    out, _ = talk(OPENED, LENGTH, "/quit", "not read")
    assert "1932 [1]" in out
    assert "[1] “The Old Bridge of Varn was opened in 1932.”" in out
    assert "(How long is Old Bridge?)" in out
    assert "212 metres" in out
    assert "not read" not in out


def test_commands(talk: Talk) -> None:
    out, err = talk(
        "/sources", OPENED, "/sources", "/trace", "/method concat", "/nonsense", "/help"
    )
    assert "nothing has been asked" in err
    assert "there is no command /nonsense" in err
    assert "bridge.md" in out.partition("Sources")[2]
    assert "concat_pf" in out
    assert out.rstrip().endswith("Anything else is a question.")
    assert "\nconcat\n" in out


def test_a_mistake_does_not_end_the_talk(talk: Talk) -> None:
    out, err = talk("/method concatt", OPENED)
    assert "concatt" in err
    assert "1932" in out


def test_bytes_that_are_not_utf_8_do_not_end_the_talk(
    kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = b"/method caf\xe9\n\xff " + OPENED.encode() + b"\n/trace\n/method\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(typed), "utf-8"))
    chat(kb=kb, model=LEXICAL)
    out, err = capsys.readouterr()
    assert "unknown method 'caf?'" in err
    assert "1932 [1]" in out
    assert out.rstrip().endswith("concat_pf")
    assert read_conversation()[0].text == f"? {OPENED}"


def test_the_conversation_is_kept(talk: Talk, history: Path) -> None:
    talk(OPENED)
    out, _ = talk(LENGTH, again=True)
    assert "212 metres" in out
    assert [one.text for one in read_conversation()][::2] == [OPENED, LENGTH]
    assert history.stat().st_mode & 0o777 == 0o600


def test_ask_goes_on_where_the_last_question_ended(
    kb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ask(OPENED, kb=kb, model=LEXICAL)
    capsys.readouterr()
    ask(LENGTH, follow_up=True, kb=kb, model=LEXICAL, json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["question"] == "How long is Old Bridge?"
    assert said["answer"] == "212"
    assert "messages" not in said
    ask("And where is it?", follow_up=True, kb=kb, model=LEXICAL, json=True)
    assert json.loads(capsys.readouterr().out)["question"] == "And where is Old Bridge?"
    assert len(read_conversation()) == 6
    ask(OPENED, kb=kb, model=LEXICAL)
    assert len(read_conversation()) == 2


@pytest.mark.loopback
def test_a_connection_that_is_kept_alive_serves_the_next_question(
    kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    replies = ["1932", "How long is the Old Bridge?", "212 metres"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{OPENED}\n{LENGTH}\n"))
    with OpenAIServer(replies, per_connection=len(replies)) as server:
        chat(kb=str(kb), model=f"openai:scripted?base_url={server.base_url}", method="concat")
    out, err = capsys.readouterr()
    assert err == ""
    assert "(How long is the Old Bridge?)\n212 metres" in out
    assert server.count == len(replies)


def test_a_follow_up_that_was_not_restated_is_said(
    kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stubborn(seen: Seen) -> str:
        return "I won't." if seen.task and seen.task["task"] == "restate" else "1932"

    model: Any = ScriptedChat(replies=stubborn)
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{OPENED}\n{LENGTH}\n"))
    chat(kb=str(kb), model=model, method="concat")
    assert capsys.readouterr().out.count("The follow-up could not be restated") == 1


NO_PASSAGE = "No passage of the knowledge base matches the question."
UNMATCHED = "Which xylophone zebra?"


def test_a_follow_up_warns_as_a_first_question_does(
    kb: Path, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    for follow_up in (False, True):
        ask(UNMATCHED, follow_up=follow_up, kb=kb, model=LEXICAL, trace=True)
        out = capsys.readouterr().out
        assert out.count(NO_PASSAGE) == 1
        assert out.count("no_passages_found") == 1
    ask(UNMATCHED, follow_up=True, kb=kb, model=LEXICAL, trace=True, json=True)
    said = json.loads(capsys.readouterr().out)
    noted = {step["node"]: [note["event"] for note in step["notes"]] for step in said["trace"]}
    found_nothing = ["no_passages_found", "unknown_without_documents"]
    assert noted["concat_pf"] == found_nothing
    assert [note["event"] for note in said["notes"]] == found_nothing
    assert talk(UNMATCHED, again=True)[0].count(NO_PASSAGE) == 1


def test_a_follow_up_opens_its_model_once(
    kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def make(name: str, _settings: Any) -> ScriptedChat:
        opened.append(name)
        return ScriptedChat(replies=["1932"])

    MODELS.register(
        ModelProvider(name="counted", spec="counted:NAME", summary="Counts.", make=make)
    )
    try:
        ask(OPENED, kb=str(kb), model="counted:one", method="concat")
        ask(LENGTH, follow_up=True, kb=str(kb), model="counted:two", method="concat")
    finally:
        MODELS.unregister("counted")
    assert opened == ["one", "two"]


def test_nothing_to_go_on_with_is_said(history: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no conversation to go on with"):
        read_conversation()
    history.parent.mkdir()
    for damaged in ("{", "[]", '{"messages": 3}', '{"messages": [{"type": "x"}]}'):
        history.write_text(damaged)
        with pytest.raises(UsageError, match="does not hold a conversation"):
            read_conversation()
    monkeypatch.setenv("RAGWEAVE_HISTORY", "off")
    keep_conversation([])
    with pytest.raises(UsageError, match="keeps none"):
        read_conversation()
    monkeypatch.setenv("RAGWEAVE_HISTORY", "x" * 300)  # no file system takes it
    with pytest.raises(UsageError, match="does not hold a conversation"):
        read_conversation()


def test_a_device_keeps_its_rights(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[Path] = []
    monkeypatch.setattr(Path, "chmod", lambda path, mode: changed.append(path))
    monkeypatch.setenv("RAGWEAVE_HISTORY", os.devnull)
    keep_conversation([])
    assert changed == []


def test_a_folder_that_cannot_be_written_is_a_remark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RAGWEAVE_HISTORY", str(tmp_path / "file" / "talk.json"))
    keep_conversation([])
    assert "the conversation is not kept" in capsys.readouterr().err


def test_without_a_name_it_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGWEAVE_HISTORY")
    path = conversation_file()
    assert path is not None
    assert str(path).startswith(os.environ["XDG_STATE_HOME"])


def test_the_command_is_there(ragweave: Run) -> None:
    done = ragweave("chat", "--help")
    assert "--continue" in done.stdout


@pytest.mark.parametrize("lines", [(OPENED,), (OPENED, "/method")])
def test_a_pipes_question_that_fails_is_told_by_the_exit_code(
    lines: tuple[str, ...],
    kb: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model: Any = ScriptedChat(replies=[ModelError("no memory")])
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines) + "\n"))
    with pytest.raises(typer.Exit) as ended:
        chat(kb=str(kb), model=model)
    assert ended.value.exit_code == 1
    assert "no memory" in capsys.readouterr().err


def test_another_method_takes_the_options_that_it_has(
    kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"/method concat\n{OPENED}\n"))
    chat(kb=str(kb), model=LEXICAL, method="filco", option=["top=2"])
    said = capsys.readouterr()
    assert said.err == ""
    assert "1932" in said.out
    with pytest.raises(UsageError, match="top"):
        chat(kb=str(kb), model=LEXICAL, method="concat", option=["top=2"])
