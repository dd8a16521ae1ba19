"""`ragweave ask`: the answer, its quotes, sources and cost; options; several methods; mistakes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import run
from tests.openai_server import HttpFault, OpenAIServer

from ragweave import KnowledgeBase
from ragweave.testing import ModelCall, ScriptedModel
from ragweave.tools.footnotes import MEANING

QUESTION = "When was the Old Bridge of Varn opened?"
Models = dict[str, ScriptedModel]


def by_script(scripted: Models, script: Any = ("1932",)) -> tuple[str, str]:
    scripted["x"] = ScriptedModel(script=script)
    return "--model", "scripted:x"


def test_it_prints_answer_quote_sources_and_cost(scripted: Models, kb: Path) -> None:
    done = run("ask", QUESTION, "--kb", str(kb), "-k", "1", *by_script(scripted))
    assert done.returncode == 0, done.stderr
    answer, quote, meaning, head, source, cost = done.stdout.splitlines()
    assert answer == "Answer: 1932 [1]"
    assert quote.startswith(" [1] “The Old Bridge of Varn was opened in 1932.” (The Old Bridge — ")
    assert meaning.strip() == MEANING
    assert (head, source[:25]) == ("Sources", "   [1] The Old Bridge — /")
    assert "bridge.md — The Old Bridge of Varn was opened" in source
    assert cost.startswith("1 call · ")
    assert "1 search" in cost
    plain = run("ask", QUESTION, "--kb", str(kb), "-k", "1", "--no-citations", *by_script(scripted))
    assert plain.stdout.splitlines()[:2] == ["Answer: 1932", "Sources"]


def test_json_has_the_output_of_the_graph(scripted: Models, kb: Path) -> None:
    done = run("ask", QUESTION, "--kb", str(kb), "--json", *by_script(scripted))
    out = json.loads(done.stdout)
    keys = {"question", "answer", "status", "truncated", "passages", "citations", "candidates", "usage"}
    assert set(out) == keys
    assert (out["answer"], out["status"]) == ("1932", "answered")
    assert set(out["passages"][0]) == {"id", "text", "metadata"}
    assert out["citations"][0]["quotes"][0]["text"] == "The Old Bridge of Varn was opened in 1932."


def test_index_and_ask_share_the_default_knowledge_base(scripted: Models, town: Path, tmp_path: Path) -> None:
    none = run("ask", QUESTION, *by_script(scripted), cwd=tmp_path)
    assert none.returncode == 2
    assert "no knowledge base at 'kb': make one with `ragweave index FILES --kb kb`" in none.stderr
    assert run("index", str(town), "--embedding", "none", cwd=tmp_path).returncode == 0
    assert "Answer: 1932 [1]" in run("ask", QUESTION, *by_script(scripted), cwd=tmp_path).stdout
    free = run("ask", QUESTION, "--method", "direct", *by_script(scripted), cwd=tmp_path.parent)
    assert free.stdout.splitlines()[:2] == ["Answer: 1932 [?]", " [?] no passage supports this"]


def test_the_rows_of_an_answer_are_saved(scripted: Models, tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text("ticket,status\n1,closed\n2,open\n3,closed\n")
    assert run("index", "tickets.csv", "--embedding", "none", cwd=tmp_path).returncode == 0
    reply = {"write": "SELECT count(*) FROM tickets WHERE status = 'closed'", "word": "2", "answer": "Unknown"}
    given = ("--method", "table_query", "--save", "rows.csv", *by_script(scripted, reply))
    done = run("ask", "How many are closed?", *given, cwd=tmp_path)
    assert "Answer: 2 [1]" in done.stdout and "2 rows written to rows.csv" in done.stderr
    rows = (tmp_path / "rows.csv").read_text().splitlines()
    assert [row.rpartition(",")[0] for row in rows] == ["ticket,status", "1,closed", "3,closed"]
    scripted["x"] = ScriptedModel(script={"write": "NONE", "answer": "Unknown"})
    assert "no file" in run("ask", "Who?", *given, cwd=tmp_path).stderr
    (tmp_path / "log.md").write_text(
        "---\nsql: SELECT count(*) FROM tickets\n---\nThe zeppelin query counts tickets.\n"
    )
    assert run("index", "log.md", "--embedding", "none", cwd=tmp_path).returncode == 0
    done = run("ask", "What does the zeppelin query count?", "--model", "extractive", "--save", "own.csv", cwd=tmp_path)
    assert "no file" in done.stderr and not (tmp_path / "own.csv").exists()


def test_an_answer_is_shown_even_if_its_rows_are_gone(scripted: Models, tmp_path: Path) -> None:
    (tmp_path / "tickets.csv").write_text("ticket,status\n1,closed\n2,open\n3,closed\n")
    assert run("index", "tickets.csv", "--embedding", "none", cwd=tmp_path).returncode == 0

    def reply(call: ModelCall) -> str:
        if call.node == "word":  # somebody writes the knowledge base meanwhile
            with KnowledgeBase.open(tmp_path / "kb") as kb:
                kb.delete(source=str(tmp_path / "tickets.csv"))
        return "2" if call.node == "word" else "SELECT count(*) FROM tickets WHERE status = 'closed'"

    given = ("--method", "table_query", "--save", "rows.csv", *by_script(scripted, reply))
    done = run("ask", "How many are closed?", *given, cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, "ragweave: no such table: tickets")
    assert "Answer: 2 [1]" in done.stdout
    assert not (tmp_path / "rows.csv").exists()


def test_a_file_of_replies_reads_no_document_twice(scripted: Models, tmp_path: Path) -> None:
    texts = [f"Letter {n} is about a bridge." for n in range(6)]
    for n, text in enumerate(texts):
        (tmp_path / f"letter-{n}.txt").write_text(text)
    assert run("index", str(tmp_path), "--embedding", "none", cwd=tmp_path).returncode == 0
    asked = Counter[str]()

    def reply(call: ModelCall) -> str:
        asked[next(text for text in texts if text in call.text) if call.node == "read_document" else call.node] += 1
        return '{"operation": "count", "condition": "Is it about a bridge?"}' if call.node == "plan_reading" else "Yes"

    given = ("--method", "exhaustive", "--cache", "replies.sqlite", "--no-citations", *by_script(scripted, reply))
    for limit in (3, 6, 6):
        done = run("ask", "How many are about a bridge?", *given, "-o", f"max_documents={limit}", cwd=tmp_path)
        assert f"Answer: {limit} (read {limit} of 6 documents)" in done.stdout
    assert asked == Counter(["plan_reading", *texts])
    before = asked.total()
    for _ in range(2):  # samples stay samples
        run("ask", "Who?", "--methods", "direct[samples=3]", *given[2:], cwd=tmp_path)
    assert asked.total() == before + 3
    assert "no such folder" in run("ask", "Who?", *given[:3], "no/replies.sqlite", cwd=tmp_path).stderr


def test_options_are_read_by_their_types(scripted: Models, kb: Path) -> None:
    def reply(call: ModelCall) -> str:
        return "none of them" if call.role == "selector" else "1932"

    given = ("-o", "k=1", "-o", "queries=question,internal", "-o", "timeout=none", "-o", "unknown=false")
    done = run("ask", QUESTION, "--kb", str(kb), "-m", "blendfilter", *given, "--json", *by_script(scripted, reply))
    assert done.returncode == 0, done.stderr
    nodes = set(json.loads(done.stdout)["usage"]["by_node"])
    assert "internal" in nodes
    assert "external" not in nodes


def test_a_model_for_each_role(scripted: Models, kb: Path) -> None:
    scripted["big"] = ScriptedModel(script=["1932"])
    scripted["small"] = ScriptedModel(script=["Known(False)"])
    models = ("--model", "scripted:big", "--model", "proxy=scripted:small")
    done = run("ask", QUESTION, "--kb", str(kb), "--method", "slimplm", *models, "--json")
    assert done.returncode == 0, done.stderr
    usage = json.loads(done.stdout)["usage"]["by_role"]
    assert usage["generator"]["calls"] == len(scripted["big"].calls) == 1
    assert sum(counts["calls"] for role, counts in usage.items() if role != "generator") == len(scripted["small"].calls)


def test_a_filter_searches_only_passages_of_that_metadata(scripted: Models, kb: Path, town: Path) -> None:
    given = ("ask", "What of Varn?", "--kb", str(kb), "--json", *by_script(scripted))
    assert len(json.loads(run(*given).stdout)["passages"]) == 3
    passages = json.loads(run(*given, "--filter", "title=Harbour").stdout)["passages"]
    assert [passage["metadata"]["title"] for passage in passages] == ["Harbour"]
    passages = json.loads(run(*given, "--filter", "source=bridge.md", cwd=town).stdout)["passages"]
    assert [Path(passage["metadata"]["source"]).name for passage in passages] == ["bridge.md"]
    for chosen, text in (
        ("source=museum.txt", "no passage passes"),
        ("langs=en", "no passage has a field 'langs'"),
        ("title>=v1.10", "the field holds texts such as"),
        ('{"title": {"$like": "x"}}', "no operator '$like'"),
    ):
        done = run(*given, "--filter", chosen)
        assert done.returncode == 2
        assert text in done.stderr


def test_a_follow_up_goes_on_from_the_last_answer(scripted: Models, kb: Path, tmp_path: Path) -> None:
    def reply(call: ModelCall) -> str:
        return "How long is the Old Bridge of Varn?" if "Rewrite the last question" in call.text else "212 metres"

    history = {"RAGWEAVE_HISTORY": str(tmp_path / "history.json")}
    model = by_script(scripted, reply)
    assert run("ask", QUESTION, "--kb", str(kb), *model, env=history).returncode == 0
    done = run("ask", "-c", "How long is it?", "--kb", str(kb), "--json", *model, env=history)
    assert json.loads(done.stdout)["question"] == "How long is the Old Bridge of Varn?"
    assert (tmp_path / "history.json").stat().st_mode & 0o077 == 0
    off = run("ask", "-c", "Why?", "--kb", str(kb), *model, env={"RAGWEAVE_HISTORY": "off"})
    assert off.returncode == 2
    assert f"no conversation about {kb} to continue: ask first without -c" in off.stderr


def test_each_knowledge_base_has_its_own_last_conversation(scripted: Models, town: Path, tmp_path: Path) -> None:
    env, model = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}, by_script(scripted)
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        run("index", str(town), "--embedding", "none", cwd=tmp_path / folder)
    assert run("ask", QUESTION, *model, cwd=tmp_path / "one", env=env).returncode == 0
    assert run("ask", "-c", QUESTION, *model, cwd=tmp_path / "one", env=env).returncode == 0
    assert "no conversation about kb" in run("ask", "-c", QUESTION, *model, cwd=tmp_path / "two", env=env).stderr


def test_methods_are_compared_and_one_that_fails_says_why(scripted: Models, kb: Path) -> None:
    given = ("ask", QUESTION, "--kb", str(kb), "--methods", "direct,concat[k=1],skr_knn", "-o", "k=2")
    done = run(*given, *by_script(scripted))
    assert done.returncode == 1  # skr_knn needs training questions
    for text in ("direct", "concat[k=1]", "The Old Bridge — bridge.md", "failed: "):
        assert text in done.stdout
    rows = json.loads(run(*given, "--json", *by_script(scripted)).stdout)
    assert [row["status"] for row in rows] == ["answered", "answered", "failed"]
    assert [len(row.get("sources", ())) for row in rows] == [0, 1, 0]


def test_replies_are_shown_as_they_are_written(scripted: Models, kb: Path) -> None:
    done = run("ask", QUESTION, "--kb", str(kb), "--stream", *by_script(scripted, ["1932 [1]."]))
    first, second = done.stdout.splitlines()[:2]
    assert first == "[concat] 1932."
    assert second.startswith(" [1] “The Old Bridge of Varn was opened in 1932.”")


def test_what_a_terminal_could_obey_is_not_printed(scripted: Models, kb: Path) -> None:
    done = run("ask", QUESTION, "--kb", str(kb), *by_script(scripted, ["19\x1b[2J32 [red]"]))
    assert "\x1b" not in done.stdout
    assert "19[2J32 [red]" in done.stdout


def test_the_embedded_model_says_once_that_it_is_none(kb: Path) -> None:
    done = run("ask", QUESTION, "--kb", str(kb))
    assert done.returncode == 0
    assert done.stderr.count("no language model wrote this") == 1


MISTAKES = [
    (("ask", " "), "the question is empty"),
    (("ask", "x", "--method", "concatt"), "did you mean 'concat'"),
    (("ask", "x", "-o", "kk=1"), "concat_pf has no option 'kk': did you mean 'k'"),
    (("ask", "x", "-o", "k=none"), "k: Input should be a valid integer"),
    (("ask", "x", "-o", "k"), "an option is name=value, not 'k'"),
    (("ask", "x", "-k", "2", "-o", "k=3"), "k is given twice"),
    (("ask", "x", "-k", "0"), "at least 1"),
    (("ask", "x", "--filter", "title"), "--filter title: give a test such as lang=en"),
    (("ask", "x", "--kb", "nowhere"), "`ragweave index FILES --kb nowhere`"),
    (("ask", "x", "--retriever", "bm52"), "did you mean 'bm25'"),
    (("ask", "x", "--second-retriever", "bm25"), "concat_pf has no second search"),
    (("ask", "x", "--model", "scripted:"), "scripted"),
    (("ask", "x", "--model", "jugde=extractive"), "no role 'jugde': did you mean 'judge'"),
    (("ask", "x", "--model", "proxy="), "--model proxy: names no model"),
    (("ask", "x", "--methods", "direct", "--trace"), "--methods cannot be combined with"),
    (("ask", "x", "--save", "no/such/page.html"), "no such folder: no/such"),
    (("ask", "x", "--save", "page.pdf"), "end in .html, .md or .csv, not page.pdf"),
    (("methods", "crag", "--svg", "."), "Is a directory"),
    (("ask",), "Missing argument"),
    (("aks", "x"), "there is no command 'aks': did you mean 'ask'?"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_mistake_is_one_line_and_exits_2(args: tuple[str, ...], message: str, kb: Path) -> None:
    done = run(*args, cwd=kb.parent)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.loopback
def test_a_server_that_refuses_or_is_not_there_is_named(kb: Path) -> None:
    with OpenAIServer([HttpFault(401)]) as server:
        model = f"openai:x?base_url={server.base_url}"
        refused = run("ask", QUESTION, "--kb", str(kb), "--model", model)
    assert (refused.returncode, "the model server answered 401" in refused.stderr) == (1, True)
    gone = run("ask", QUESTION, "--kb", str(kb), "--model", f"{model}&max_retries=0")
    assert gone.returncode == 1
    assert f"the model server {server.base_url.removesuffix('/v1')} cannot be reached" in gone.stderr
