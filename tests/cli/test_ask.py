from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.command import LEXICAL, Run, started
from tests.openai_server import BrokenJson, Hang, HttpFault, OpenAIServer, Reply
from tests.scripted import ScriptedChat

from ragweave.cli.ask import ask, compare
from ragweave.errors import ModelError
from ragweave.tools.knowledge.store import FILE


def test_answers_with_its_sources(ragweave: Run, kb: Path) -> None:
    done = ragweave("ask", "When was the Old Bridge opened?", "--kb", str(kb), *LEXICAL)
    assert done.returncode == 0, done.stderr
    assert "Answer: 1932" in done.stdout
    assert "bridge.md" in done.stdout
    assert "1 call ·" in done.stdout


def test_a_question_that_is_not_utf_8_is_answered(
    kb: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAGWEAVE_HISTORY", "off")
    question = os.fsdecode(b"When was the Old Bridge by the caf\xe9 opened?")
    model: Any = ScriptedChat(replies=["1932"])
    ask(question, kb=str(kb), method="concat", model=model, json=True)
    assert json.loads(capsys.readouterr().out)["answer"] == "1932"
    compare(question, "concat", kb=str(kb), model=model, json=True)
    assert [one["answer"] for one in json.loads(capsys.readouterr().out)] == ["1932"]
    assert ["by the caf? opened?" in call.text for call in model.seen] == [True, True]


def test_citations_are_footnotes(ragweave: Run, kb: Path) -> None:
    asked = ("ask", "When was the Old Bridge opened?", "--kb", str(kb), *LEXICAL, "--citations")
    done = ragweave(*asked)
    assert "Answer: 1932 [1]" in done.stdout
    assert "[1] “The Old Bridge of Varn was opened in 1932.” (The Old Bridge — " in done.stdout
    (cited,) = json.loads(ragweave(*asked, "--json").stdout)["citations"]
    assert cited["quotes"][0]["text"] == "The Old Bridge of Varn was opened in 1932."


def test_json_is_one_object_with_everything(ragweave: Run, kb: Path) -> None:
    done = ragweave(
        *("ask", "Who is the director of the museum?", "--kb", str(kb), *LEXICAL),
        *("-m", "post_fusion", "-k", "2", "--json", "--trace"),
    )
    said = json.loads(done.stdout)
    assert said["answer"] == "Ada Lindqvist"
    assert said["status"] == "answered"
    assert len(said["passages"]) == said["usage"]["calls"] == len(said["candidates"]) <= 2
    assert said["passages"][0]["text"].startswith("The museum")
    assert [step["node"] for step in said["trace"]][:3] == ["begin", "retrieve", "collect"]


def test_trace_shows_the_fallback(ragweave: Run, kb: Path) -> None:
    done = ragweave(
        *("ask", "What is the salary of the harbour master?", "--kb", str(kb), *LEXICAL),
        *("-m", "concat_pf", "--trace"),
    )
    assert done.returncode == 0
    assert "Answer: Unknown" in done.stdout
    lines = [line.strip("│├└─ ").split()[0] for line in done.stdout.splitlines() if "ms" in line]
    assert lines.index("concat_vote") < lines.index("post_fusion") < lines.index("vote")


def test_options_and_stream(ragweave: Run, kb: Path) -> None:
    done = ragweave(
        *("ask", "Does the harbour freeze in January?", "--kb", str(kb), *LEXICAL, "--stream"),
        *("-m", "concat", "-o", "answer_type=yes_no", "-o", "samples=2", "-o", "order=reversed"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[concat] Yes") == 2
    assert "Answer: Yes" in done.stdout
    assert "2 calls" in done.stdout


def test_no_match_is_said(ragweave: Run, kb: Path) -> None:
    done = ragweave("ask", "xylophone quasar?", "--kb", str(kb), *LEXICAL)
    assert done.returncode == 0
    assert "No passage of the knowledge base matches" in done.stdout
    assert "0 calls" in done.stdout


MISTAKES = {
    "empty question": (("ask", "   "), "the question is empty"),
    "unknown method": (("ask", "q", "-m", "concat_fp"), "did you mean 'concat_pf'"),
    "unknown option": (("ask", "q", "-o", "kay=3"), "no option 'kay'"),
    "option without value": (("ask", "q", "-o", "k"), "name=value"),
    "k below 1": (("ask", "q", "-k", "0"), "k must be a whole number of at least 1"),
    "k no number": (("ask", "q", "-o", "k=many"), "k must be a whole number"),
    "missing kb": (("ask", "q", "--kb", "nowhere"), "nowhere"),
    "no kb": (("ask", "q"), "nothing to retrieve from"),
    "unknown model": (("ask", "q", "--model", "gpt"), "unknown model 'gpt'"),
    "model setting": (("ask", "q", "--model", "extractive?temper=1"), "temper"),
    "unknown method to draw": (("draw", "nothing"), "unknown method"),
    "unknown flag": (("ask", "q", "--colour"), "colour"),
    "no question": (("ask",), "question"),
    "server without scheme": (("ask", "q", "--model", "openai:m?base_url=host"), "http://"),
}


@pytest.mark.parametrize(("args", "said"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_exit_2_without_traceback(
    ragweave: Run, tmp_path: Path, args: tuple[str, ...], said: str
) -> None:
    done = ragweave(*args, cwd=tmp_path)
    assert done.returncode == 2, done
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_foreign_damaged_and_newer_knowledge_bases(ragweave: Run, tmp_path: Path, kb: Path) -> None:
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "song.txt").write_text("la", "utf-8")
    for name in ("damaged", "newer"):
        shutil.copytree(kb, tmp_path / name)
    (tmp_path / "damaged" / FILE).write_bytes(b"no database" * 1000)
    with closing(sqlite3.connect(tmp_path / "newer" / FILE)) as db:
        db.execute("UPDATE meta SET value = '99' WHERE key = 'version'")
        db.commit()
    for name in ("foreign", "damaged", "newer"):
        done = ragweave("ask", "q", "--kb", name, cwd=tmp_path)
        assert done.returncode == 2, done
        assert name in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_missing_key_names_what_to_set_and_no_secret(ragweave: Run, tmp_path: Path) -> None:
    done = ragweave("ask", "q", "-m", "direct", "--model", "openai:gpt-4o-mini", cwd=tmp_path)
    assert done.returncode == 2
    assert "OPENAI_API_KEY" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.loopback
def test_a_real_server_answers_and_its_faults_are_one_line(ragweave: Run, kb: Path) -> None:
    secret = "sk-verysecretvalue"
    with OpenAIServer([Reply("**Varn**")]) as server:
        spec = f"openai:m?base_url={server.base_url}&max_retries=0"
        args = ("ask", "Which town has a museum?", "--kb", str(kb), "--model", spec)
        done = ragweave(*args, "-m", "concat", env={"OPENAI_API_KEY": secret})
        assert "Answer: Varn" in done.stdout, done.stderr
    with OpenAIServer([HttpFault(401, message=f"Incorrect API key provided: {secret}")]) as server:
        spec = f"openai:m?base_url={server.base_url}&max_retries=0"
        args = ("ask", "Which town has a museum?", "--kb", str(kb), "--model", spec)
        done = ragweave(*args, "-m", "concat", env={"OPENAI_API_KEY": secret})
    assert done.returncode == 1
    assert "401" in done.stderr
    assert secret not in done.stderr + done.stdout
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.loopback
def test_a_server_that_is_not_there(ragweave: Run) -> None:
    with OpenAIServer([Reply("x")]) as server:
        gone = server.base_url
    spec = f"openai:m?base_url={gone}&max_retries=0"
    done = ragweave("ask", "q", "-m", "direct", "--model", spec)
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.loopback
@pytest.mark.parametrize("reply", [BrokenJson(), Reply("")], ids=["broken JSON", "empty"])
def test_a_reply_that_is_none_is_one_line(ragweave: Run, reply: BrokenJson | Reply) -> None:
    with OpenAIServer([reply]) as server:
        spec = f"openai:m?base_url={server.base_url}&max_retries=0"
        done = ragweave("ask", "q", "-m", "direct", "--model", spec)
    if isinstance(reply, Reply):
        assert "Answer: Unknown" in done.stdout
        assert "empty reply" in done.stdout
    else:
        assert done.returncode == 1
        assert "an invalid reply" in done.stderr or "cannot be read" in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.loopback
def test_a_reply_cannot_steer_the_terminal(ragweave: Run) -> None:
    hostile = "\x1b[2J\x1b]0;title\x07Paris\u202e"
    with OpenAIServer([Reply(hostile)]) as server:
        spec = f"openai:m?base_url={server.base_url}"
        shown = ragweave("ask", "q", "-m", "direct", "--model", spec, "--stream", "--trace")
    assert "Paris" in shown.stdout
    assert not set("\x1b\x07\u202e") & set(shown.stdout)


@pytest.mark.loopback
def test_ctrl_c_ends_at_once_with_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("langchain_openai")
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with OpenAIServer([Hang()]) as server:
        spec = f"openai:m?base_url={server.base_url}"
        with started("ask", "q", "-m", "direct", "--model", spec, timeout=30) as process:
            while server.count == 0 and process.running:
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            said = process.ended()
    assert (said.returncode, said.stderr.strip()) == (130, "ragweave: stopped")


def test_compare_shows_what_the_other_methods_answer_where_one_fails(
    kb: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(seen: Any) -> str:
        if seen.passages:
            raise ModelError("no more memory: sk-abcdefghijkl")
        return "1932"

    model: Any = ScriptedChat(replies=said)
    for as_json in (True, False):
        with pytest.raises(typer.Exit) as ended:
            compare(
                "When was the Old Bridge opened?",
                "concat,direct",
                kb=str(kb),
                model=model,
                json=as_json,
            )
        assert ended.value.exit_code == 1
        out = capsys.readouterr().out
        assert "no more memory" in out
        assert "sk-abc" not in out
        assert "1932" in out
        if as_json:
            concat, direct = json.loads(out)
            assert (concat["status"], concat["answer"]) == ("failed", None)
            assert concat["seconds"] >= 0
            assert "error" not in direct


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("1932", "Answered without your documents: judged known"),
        ("Unknown", "Unknown, and none of your documents was read: judged known"),
    ],
)
def test_a_run_that_read_no_document_says_so(
    kb: Path, capsys: pytest.CaptureFixture[str], answer: str, line: str
) -> None:
    def said(seen: Any) -> str:
        return "No" if seen.task["task"] == "need" else answer

    asked: Any = {"kb": str(kb), "model": ScriptedChat(replies=said)}
    once = ["second_look=false"]
    ask("When was the Old Bridge opened?", method="self_eval", option=once, **asked)
    assert line in capsys.readouterr().out
    both = ("When was the Old Bridge opened?", f"self_eval[{once[0]}],concat")
    compare(*both, **asked)
    assert " ".join(capsys.readouterr().out.split()).count(f": {line}") == 1
    compare(*both, **asked, json=True)
    lines = [one["without_documents"] for one in json.loads(capsys.readouterr().out)]
    assert lines == [line, ""]


def test_compare_asks_one_method_after_another(
    kb: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model: Any = ScriptedChat(replies=["1932"], delay=0.05)
    compare(
        "When was the Old Bridge opened?", "direct,concat,cot", kb=str(kb), model=model, json=True
    )
    assert len(json.loads(capsys.readouterr().out)) == 3
    assert model.most_at_once == 1
