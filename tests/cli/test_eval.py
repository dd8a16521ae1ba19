"""`ragweave eval`, `report`, `compare` and `study` as a user meets them."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.command import COMMAND, LEXICAL, Run, started
from tests.evaluation.towns import towns
from tests.openai_server import OpenAIServer, Reply
from tests.tiny_gguf import transformers_model, transformers_tokenizer

from ragweave.cli.eval import follow
from ragweave.cli.main import app
from ragweave.errors import UsageError
from ragweave.evaluation.runs import RunConfig, RunDirectory, RunResult, records_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return towns(tmp_path_factory.mktemp("data"), 5)


@pytest.fixture(scope="module")
def done(data: Path, ragweave: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "towns"
    args = ("--methods", "direct,concat[k=2],concat_pf", "-k", "3", "--out", str(out))
    ended = ragweave("eval", f"jsonl:{data}", *LEXICAL, *args)
    assert ended.returncode == 0, ended.stderr
    assert "concat[k=2]" in ended.stdout
    assert "15 answered, 0 failed of 15" in ended.stderr
    assert "\x1b" not in ended.stdout + ended.stderr  # quiet in a pipe
    return out


def test_eval_records_every_question_under_its_options(done: Path) -> None:
    settings = json.loads((done / "run.json").read_text("utf-8"))
    options = {one["label"]: one["options"] for one in settings["systems"]}
    assert options == {"direct": {"k": 3}, "concat[k=2]": {"k": 2}, "concat_pf": {"k": 3}}
    assert len(list(records_of([done / "results.jsonl"]))) == 15


def test_report_writes_its_files(done: Path, ragweave: Run, tmp_path: Path) -> None:
    out = tmp_path / "report"
    told = ragweave("report", str(done), "--out", str(out), "--no-plots")
    assert told.returncode == 0, told.stderr
    assert "Differences" in told.stdout
    assert {path.name for path in out.iterdir()} >= {"report.md", "report.html", "results.csv"}


@pytest.mark.parametrize(
    ("name", "text", "spec", "said"),
    [
        ("a.csv", "question,answers\nq,a\n", "csv:a.csv?separator=", "csv: separator is empty"),
        ("a.csv", "question,answers\nq,a\n", "csv:a.csv?id=nope", "a.csv:2: no row up to here has"),
        (
            "a.json",
            '{"question": "q", "answer": [["a"]]}',
            "a.json",
            "a.json:1: 'answer' must hold",
        ),
        (
            "a.json",
            '{"id": "1", "input": "q", "output": [{"answer": "a", "provenance": ["x"]}]}',
            "a.json",
            "a.json:1, output 1: 'provenance' must be a list of objects",
        ),
    ],
)
def test_a_data_set_that_cannot_be_read_is_one_line(
    name: str, text: str, spec: str, said: str, ragweave: Run, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    told = ragweave("eval", spec, *LEXICAL, "--methods", "direct", "--out", "run", cwd=tmp_path)
    assert told.returncode == 2
    (line,) = told.stderr.splitlines()
    assert said in line


def test_study_runs_draws_and_goes_on(data: Path, ragweave: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need the eval extra")
    args = ("study", "k", f"jsonl:{data}", "--methods", "concat", "--values", "1,2")
    told = ragweave(*args, *LEXICAL, "--out", str(tmp_path / "study"), "--limit", "3")
    assert told.returncode == 0, told.stderr
    assert "concat[k=2]" in told.stdout
    assert (tmp_path / "study" / "report" / "plots" / "study-k.svg").exists()


@pytest.mark.parametrize(("budget", "runs"), [(10_000, 2), (30, 1)])
def test_the_runs_of_a_study_share_its_budget(
    budget: int,
    runs: int,
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    given: list[tuple[int | None, int]] = []

    def seen(directory: RunDirectory, config: RunConfig, *args: Any, **more: Any) -> RunResult:
        without = replace(config, cache=None)  # else the second run would pay for nothing
        result = follow(directory, without, *args, **more)
        given.append((config.budget_tokens, result.progress.spent.paid_tokens))
        return result

    monkeypatch.setattr("ragweave.cli.eval.follow", seen)
    args = ("study", "retriever", f"jsonl:{data}", *LEXICAL, "--methods", "concat")
    more = ("--values", "bm25,auto", "--concurrency", "1", "--budget-tokens", str(budget))
    app([*args, *more, "--out", str(tmp_path)], standalone_mode=False)
    assert given[0][0] == budget
    assert len(given) == runs
    assert runs == 1 or given[1][0] == budget - given[0][1]
    assert (tmp_path / "report").exists() is (runs == 2)
    told = capfd.readouterr().err
    assert "eval --resume" not in told
    assert ("Resume with a larger one: the same command" in told) is (runs == 1)


def test_study_filco_measures_by_cxmi_with_a_scorer(
    data: Path, ragweave: Run, tmp_path: Path
) -> None:
    pytest.importorskip("transformers", reason="the scorer needs the hf extra")
    transformers_model().save_pretrained(tmp_path / "tiny")
    transformers_tokenizer().save_pretrained(tmp_path / "tiny")
    args = ("study", "filco", f"jsonl:{data}", *LEXICAL, "--corpus", "given", "--limit", "2")
    told = ragweave(*args, "--scorer", "hf:tiny", "--out", "study", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "Left out" not in told.stderr
    found = list(records_of([tmp_path / "study" / "run" / "results.jsonl"]))
    notes = [one["event"] for record in found for one in record["notes"]]
    assert sum(record["system"] == "filco cxmi" for record in found) == 2
    assert "scorer_missing" not in notes
    without = ragweave(*args, "--out", "bare", cwd=tmp_path)
    assert without.returncode == 0, without.stderr
    assert "Left out cxmi" in without.stderr
    assert "filco cxmi" not in without.stdout
    gone = ragweave(*args, "--scorer", "hf:none/such", "--out", "gone", cwd=tmp_path)
    assert gone.returncode == 2
    assert "none/such is not on this machine" in gone.stderr


def test_compare_shows_methods_side_by_side(kb: Path, ragweave: Run) -> None:
    args = ("--kb", str(kb), "--retriever", "bm25", *LEXICAL, "--methods", "direct,concat[k=2]")
    told = ragweave("compare", "When was the Old Bridge of Varn opened?", *args, "--json")
    assert told.returncode == 0, told.stderr
    direct, concat = json.loads(told.stdout)
    assert (direct["method"], direct["status"], direct["sources"]) == ("direct", "unknown", [])
    assert concat["answer"] == "1932"
    assert "The Old Bridge" in concat["sources"][0]
    assert concat["calls"] == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("eval",), "give a data set and --out DIR, or --resume DIR"),
        (("eval", "nope:x.json", "--out", "run"), "unknown data set 'nope'"),
        (("eval", "nq:none.json", "--out", "run"), "none.json: there is no such file"),
        (("eval", "--resume", "."), "is not a run"),
        (
            ("eval", "--resume", ".", "--methods", "concat", "--limit", "3"),
            "leave out --methods, --limit",
        ),
        (("eval", "x.jsonl", "--resume", "."), "leave out the data set"),
        (("eval", "{data}", "--out", "run", "--moved-server"), "goes with --resume DIR"),
        (("eval", "{data}", "--out", "run", "--methods", "concatt"), "did you mean 'concat'"),
        (("eval", "{data}", "--out", "run", "--shard", "3"), "--shard must be i/n"),
        (("eval", "{data}", "--out", "run", "--concurrency", "0"), "--concurrency"),
        (
            ("eval", "{data}", "--out", "run", "--scorer", "gpt"),
            "unknown scorer 'gpt': use hf:NAME",
        ),
        (("eval", "{data}", "--out", "run", "--workers", "0"), "--workers"),
        (("eval", "{data}", "--out", "run", "--price", "x"), "prices 'x'"),
        (("report", "."), "is not a run"),
        (("compare", " "), "the question is empty"),
    ],
)
def test_mistakes_are_told(
    args: tuple[str, ...], said: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        app([one.replace("{data}", str(data)) for one in args], standalone_mode=False)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "command",
    [
        ("study", "gate", "--model", "llamacpp:model.gguf"),
        ("eval", "--methods", "direct,ircot", "--model", "llamacpp:model.gguf"),
    ],
)
def test_what_has_nothing_to_search_is_told_before_a_model_is_loaded(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("q.jsonl").write_text(json.dumps({"question": "When?", "answers": ["1900"]}), "utf-8")
    with pytest.raises(UsageError, match="has nothing to search: name a knowledge base with --kb"):
        app([*command, "q.jsonl", "--out", "out"], standalone_mode=False)
    assert not Path("out").exists()


def test_a_mistake_is_one_line_and_exit_code_2(ragweave: Run, tmp_path: Path) -> None:
    told = ragweave("eval", "nope:x.json", "--out", "run", cwd=tmp_path)
    assert (told.returncode, told.stderr.count("\n")) == (2, 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.loopback
def test_a_refused_key_is_one_line_with_workers_too(
    data: Path, ragweave: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "wrong")
    with OpenAIServer("1900", key="right") as server:
        model = f"openai:m?base_url={server.base_url}&max_retries=0"
        args = (f"jsonl:{data}", "--methods", "direct", "--model", model, "--workers", "2")
        told = ragweave("eval", *args, "--out", str(tmp_path / "run"))
    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert "the model server rejected the API key (401)" in told.stderr


@pytest.mark.loopback
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_says_how_to_go_on_and_nothing_is_paid_twice(
    workers: int, data: Path, ragweave: Run, tmp_path: Path
) -> None:
    pytest.importorskip("langchain_openai")
    out = tmp_path / "run"
    with OpenAIServer(lambda _body: Reply("1900", delay=0.15 * workers)) as server:
        model = f"openai:m?base_url={server.base_url}&max_retries=0"
        args = [f"jsonl:{data}", "--methods", "direct,cot", "--model", model, "--out", str(out)]
        shared = ("--concurrency", str(workers), "--workers", str(workers))
        with started("eval", *args, *shared, timeout=120) as one:
            until = time.monotonic() + 60
            while server.count < 3 and time.monotonic() < until:
                time.sleep(0.01)
            one.send_signal(signal.SIGINT)
            told = one.ended()
        assert told.returncode == 130, told.stderr
        assert f"Resume with: ragweave eval --resume {out}" in told.stderr
        assert "Traceback" not in told.stderr
        stopped = server.count
        again = ragweave("eval", "--resume", str(out))
        assert again.returncode == 0, again.stderr
        assert stopped < 10
        assert server.count <= 10 + workers
    assert len(list(records_of([out / "results.jsonl"]))) == 10


@pytest.mark.loopback
def test_a_run_goes_on_with_a_server_that_has_moved(
    data: Path, ragweave: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langchain_openai")
    out = tmp_path / "run"
    monkeypatch.delenv("OPENAI_API_BASE", raising=False)
    with OpenAIServer(lambda _body: Reply("1900")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        args = ("--methods", "direct", "--model", "openai:m", "--budget-tokens", "1")
        begun = ragweave("eval", f"jsonl:{data}", *args, "--concurrency", "1", "--out", str(out))
        assert begun.returncode == 0, begun.stderr
    with OpenAIServer(lambda _body: Reply("1900")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        refused = ragweave("eval", "--resume", str(out))
        assert refused.returncode == 2
        assert "--moved-server" in refused.stderr
        again = ragweave("eval", "--resume", str(out), "--moved-server")
        assert again.returncode == 0, again.stderr
        assert ragweave("eval", "--resume", str(out)).returncode == 0
        assert 0 < server.count < 5
    assert len(list(records_of([out / "results.jsonl"]))) == 5


def test_a_full_disk_is_told_and_the_run_goes_on_later(
    data: Path, ragweave: Run, tmp_path: Path
) -> None:
    """A limit on file sizes stands in for a full disk: the write fails in the same place."""
    out, methods = tmp_path / "run", ("--methods", "concat_pf,blendfilter")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, resource.RLIM_INFINITY))

    told = subprocess.run(
        [*COMMAND, "eval", f"jsonl:{data}", *LEXICAL, *methods, "--out", str(out)],
        preexec_fn=limit,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert told.returncode == 1, told.stderr
    assert "cannot be written" in told.stderr
    assert "Traceback" not in told.stderr
    again = ragweave("eval", "--resume", str(out))
    assert again.returncode == 0, again.stderr
    assert len(list(records_of([out / "results.jsonl"]))) == 10
