"""`ragweave reproduce` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command import LEXICAL, Run
from tests.evaluation.reproduction.islands import data_folder

from ragweave.cli.main import app
from ragweave.errors import UsageError
from ragweave.evaluation.published import PAPERS, paper_tables


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return data_folder(tmp_path_factory.mktemp("islands"))


def test_the_list_has_every_table(ragweave: Run) -> None:
    told = ragweave("reproduce", "--list")
    assert told.returncode == 0, told.stderr
    for paper in PAPERS:
        for one in paper_tables()[paper]:
            assert one.title.split(",")[0][:20] in told.stdout
    assert "statistics of the data sets" in told.stdout


def test_a_table_is_planned_run_resumed_and_published(
    data: Path, ragweave: Run, tmp_path: Path
) -> None:
    args = ("reproduce", "post-fusion", "figure6", *LEXICAL, "--data", str(data), "--limit", "3")
    out = ("--out", str(tmp_path / "out"), "--price", "1,2")
    planned = ragweave(*args, *out, "--plan")
    assert planned.returncode == 0, planned.stderr
    for said in ("where rows differ", "What it needs", "biencoder-nq-dev.json", "US$", "all"):
        assert said in planned.stdout
    assert not (tmp_path / "out").exists()
    asked = ragweave(*args, *out)
    assert asked.returncode == 2
    assert "add --yes to run it" in asked.stderr
    done = ragweave(*args, *out, "--yes", "--publish", str(tmp_path / "outputs.jsonl"))
    assert done.returncode == 0, done.stderr
    assert "gold first" in done.stdout
    assert "a fixed place is better" in done.stdout
    written = json.loads((tmp_path / "out" / "figure6.json").read_text("utf-8"))
    assert [row["row"] for row in written["rows"]] == ["gold first", "gold last", "as retrieved"]
    outputs = (tmp_path / "outputs.jsonl").read_text("utf-8")
    assert len(outputs.splitlines()) == 12
    assert str(tmp_path) not in outputs
    again = ragweave(*args, *out, "--yes", "--publish", str(tmp_path / "again.jsonl"))
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "again.jsonl").read_text("utf-8") == outputs
    other = ragweave(*args[:-1], "2", *out, "--yes")
    assert other.returncode == 2
    assert "limit was 3, now 2; name another directory" in other.stderr


def test_a_budget_is_that_of_all_runs_together(data: Path, ragweave: Run, tmp_path: Path) -> None:
    args = ("reproduce", "post-fusion", "figure6", *LEXICAL, "--data", str(data), "--limit", "3")
    more = ("--out", str(tmp_path / "o"), "--yes", "--concurrency", "1")
    spent = ragweave(*args, *more, "--budget-tokens", "120")
    assert spent.returncode == 0, spent.stderr
    assert "3 answered; 3 calls" in spent.stderr  # without context; those leave no room for nine
    assert "The budget is spent" in spent.stderr
    assert not (tmp_path / "o" / "figure6.json").exists()


def test_a_plan_needs_no_key(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langchain_openai", reason="the model needs the openai extra")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    args = ["reproduce", "post-fusion", "figure6", "--data", str(data), "--model", "openai:m"]
    app([*args, "--plan"], standalone_mode=False)
    assert "missing: no OpenAI key" in " ".join(capsys.readouterr().out.split())
    with pytest.raises(UsageError, match="no OpenAI key: set OPENAI_API_KEY"):
        app([*args, "--yes"], standalone_mode=False)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name a paper (blendfilter, slimplm, filco, post-fusion), or --list"),
        (("blendfiltre",), "did you mean 'blendfilter'"),
        (("filco", "table9"), "filco has no table or figure 'table9'; choose one of: table1"),
        (("filco", "table1"), "cannot be reproduced: statistics of the data sets"),
        (("filco", "2", "--data", "none"), "nothing of this can be run"),
        (("filco", "2", "--file", "nq"), "--file takes DATASET=FILE"),
        (("filco", "2", "--file", "nq=none.json"), "none.json: there is no such file"),
        (("filco", "2", "--limit", "0"), "--limit must be at least 1"),
        (("filco", "2", "--kb", "nowhere"), "nowhere"),
        (("filco", "2", "--price", "x"), "prices 'x'"),
        (("filco", "2", "--budget-usd", "1"), "--budget-usd needs prices"),
        (("filco", "2", "-o", "hops=2"), "none of the methods of table 2 has an option 'hops'"),
        (("filco", "2", "--plan", "--publish", "f"), "give one of the two"),
        (("filco", "2", "--model", "gpt"), "gpt"),
        (("filco", "2", "--plan", "--model", "openai:m?api_key=sk-1"), "(answer): holds a key"),
        (("filco", "2", "--plan", "--judge", "openai:m?api_key=sk-1"), "(judge): holds a key"),
        (("filco", "2", "--plan", "--scorer", "openai:m?api_key=sk-1"), "(scorer): holds a key"),
        (
            ("slimplm", "--plan", "--proxy", "openai:m?base_url=http://me:sk-1@host/v1"),
            "(proxy): holds a key or password",
        ),
    ],
)
def test_mistakes_are_told(
    args: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        app(["reproduce", *args], standalone_mode=False)
    assert said in str(caught.value)
    assert "sk-1" not in str(caught.value)
