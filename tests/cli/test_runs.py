"""The commands `eval`, `report`, `reproduce` and `label`."""

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import BaseDocumentCompressor, Document
from tests.cli import conftest
from typer.testing import CliRunner

from ragweave.cli.main import app
from ragweave.cli.options import models_of
from ragweave.cli.runs import prices_of
from ragweave.errors import MissingExtraError, UsageError
from ragweave.evaluation.folder import read_results
from ragweave.tools.embeddings.minilm import onnx_available

Run = Callable[..., Any]


class FirstLast(BaseDocumentCompressor):
    """Reranks by turning the order round."""

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> Sequence[Document]:
        """Return the documents in reverse."""
        return documents[::-1]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Calls a command in a folder with a file of four questions, `q.jsonl`."""
    monkeypatch.chdir(tmp_path)
    rows = [
        {
            "id": at,
            "question": f"When did bridge {at} open?",
            "answer": 1931,
            "passages": [f"Bridge {at} opened in 1931."],
        }
        for at in range(4)
    ]
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return lambda *args, **more: CliRunner().invoke(app, args, **more)


def test_eval_shows_a_table_and_resumes(run: Run, tmp_path: Path) -> None:
    first = run("eval", "q.jsonl", "--methods", "concat,post_fusion[k=2]")
    assert first.exit_code == 0, first.output
    assert "post_fusion[k=2]" in first.output
    assert "are tied at Contains" in first.output
    assert {path.name for path in (tmp_path / "runs" / "q").iterdir()} >= {"report.html", "report.md", "report.csv"}
    again = run("eval", "q.jsonl", "--methods", "concat,post_fusion[k=2]")
    assert "0 answered, 8 before, 0 failed" in again.output
    assert "0 answered, 8 before" in run("eval", "--resume", "runs/q").output


def test_eval_says_what_changed_in_the_data(run: Run, tmp_path: Path) -> None:
    command = ("eval", "q.jsonl", "--methods", "concat")
    run(*command)
    rows = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    rows[0]["answer"], rows[1]["question"] = 1950, "When did the first bridge open?"
    (tmp_path / "q.jsonl").write_text("\n".join(map(json.dumps, rows[:3])))
    again = run(*command)
    assert "the data or the knowledge base changed: 1 rescored, 1 asked again, 1 gone" in again.output
    assert "1 answered, 2 before, 0 failed" in again.output
    assert "changed" not in run(*command).output


def test_eval_asks_again_if_the_knowledge_base_changed(run: Run, tmp_path: Path) -> None:
    command = ("eval", "q.jsonl", "--methods", "concat", "--kb", "kb", "--limit", "1")
    (tmp_path / "bridges.txt").write_text("Bridge 0 opened in 1950.")
    os.utime("bridges.txt", (0, 0))  # else it may still change, and is read twice
    run("index", "bridges.txt", "--kb", "kb")
    assert "1 answered" in run(*command).output
    run("index", "bridges.txt", "--kb", "kb")
    assert "0 answered, 1 before" in run(*command).output
    (tmp_path / "bridges.txt").write_text("Bridge 0 opened in 1931.")
    run("index", "bridges.txt", "--kb", "kb")
    assert "0 rescored, 1 asked again, 0 gone" in run(*command).output
    (record,) = read_results(tmp_path / "runs" / "q")
    assert "1931" in record["answer"]


def test_eval_takes_options_for_the_methods_that_have_them(run: Run, tmp_path: Path) -> None:
    run(
        "eval", "q.jsonl", "--methods", "direct,slimplm", "-k", "3", "-o", "rewrite=false", "--limit", "1", "--out", "r"
    )
    settings = json.loads((tmp_path / "r" / "run.json").read_text())
    assert settings["options"] == {"rewrite": "false", "k": "3"}
    assert settings["limit"] == 1
    assert settings["models"] == {"generator": "extractive"}


def test_eval_compares_wordings_of_one_method(run: Run, tmp_path: Path) -> None:
    (tmp_path / "brief.yaml").write_text('concat: "{passages} {question} A year, please."')
    (tmp_path / "roles.yaml").write_text('concat: [[system, "You copy."], [human, "{passages} {question}"]]')
    done = run("eval", "q.jsonl", "--methods", "concat", "--prompts", "brief.yaml,roles.yaml", "--out", "r")
    assert done.exit_code == 0, done.output
    lines = [line.split(",")[0] for line in (tmp_path / "r" / "report.csv").read_text().splitlines()[1:]]
    assert list(dict.fromkeys(lines)) == ["concat", "brief", "roles"]
    assert run("eval", "--resume", "r").exit_code == 0
    (tmp_path / "brief.yaml").write_text('concat: "{passages} {question} Another wording."')
    again = run("eval", "q.jsonl", "--methods", "concat", "--prompts", "brief.yaml,roles.yaml", "--out", "r")
    assert "began with prompts" in str(again.exception)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('conct: "{passages} {question}"', "brief: concat has no prompt 'conct': did you mean 'concat'?"),
        ('concat: "{passage} {question}"', "brief: prompt concat has no variable passage; it has"),
        ('concat: "{passages"', "brief: prompt concat is neither a text nor"),
        ("concat: 1931", "brief: prompt concat is neither a text nor"),
        ("", "brief.yaml: must map"),
    ],
)
def test_a_wrong_prompt_is_named_before_the_run(run: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "brief.yaml").write_text(text)
    done = run("eval", "q.jsonl", "--methods", "concat", "--prompts", "brief.yaml")
    assert message in str(done.exception)
    assert not (tmp_path / "runs").exists()


def test_synthetic_questions_need_a_model_that_writes(run: Run, tmp_path: Path) -> None:
    assert "--synthetic N" in str(run("eval").exception)
    assert "--synthetic N" in str(run("eval", "q.jsonl", "--synthetic", "3").exception)
    assert run("index", "--bundled", "--embedding", "none").exit_code == 0
    assert "name a chat model" in str(run("eval", "--synthetic", "3").exception)


def test_report_compares_runs(run: Run) -> None:
    for name in ("a", "b"):
        run("eval", "q.jsonl", "--methods", "concat", "--out", name)
    done = run("report", "a", "b", "--main", "f1", "--out", "both")
    assert done.exit_code == 0
    assert "a: concat and b: concat are tied at F1" in " ".join(done.output.split())
    assert Path("both/report.html").exists()


def test_reproduce_stands_beside_the_paper(run: Run, tmp_path: Path) -> None:
    done = run("reproduce", "post-fusion", "1", "nq:q.jsonl", "--row", "Post-Fusion")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "runs" / "post-fusion-1-nq" / "report.md").read_text()
    assert "| Post-Fusion |" in text
    assert "| paper |" in text
    assert "27.5" in text


def test_reproduce_searches_the_corpora_that_a_paper_publishes(run: Run, tmp_path: Path) -> None:
    """HippoRAG 2: MuSiQue's form and HotpotQA's, with a corpus beside each; its passages are whole, sentences joined."""
    if not onnx_available():
        raise MissingExtraError("this test", "offline")
    film, person = ["Low Tide is a film.", " It was made by Aaron Schneider."], ["Aaron Schneider lives in Ohio."]
    corpus = [{"title": "Low Tide", "text": "".join(film)}, {"title": "Aaron Schneider", "text": person[0]}]
    corpus += [{"title": f"Film {n}", "text": f"The director of film {n} was born and made a tide."} for n in range(6)]
    asked = {"question": "Where was the director of Low Tide born?", "answer": "Ohio"}
    context = [["Low Tide", film], ["Aaron Schneider", person], ["Film 0", [corpus[2]["text"]]]]
    facts = [["Low Tide", 1], ["Aaron Schneider", 0]]
    marked = [
        {"title": passage["title"], "paragraph_text": passage["text"], "is_supporting": at < 2}
        for at, passage in enumerate(corpus[:3])
    ]
    for name, row in (
        ("musique", {**asked, "id": "2hop__1", "paragraphs": marked, "question_decomposition": []}),
        ("hotpotqa", {**asked, "_id": "1", "context": context, "supporting_facts": facts}),
    ):
        (tmp_path / f"{name}.json").write_text(json.dumps([row]))
        (tmp_path / f"{name}_corpus.json").write_text(json.dumps(corpus))
    done = run("reproduce", "hipporag2", "--data", ".")
    assert done.exit_code == 0, done.output
    for name, printed in (("musique", "74.7"), ("hotpotqa", "96.3")):
        text = (tmp_path / "runs" / f"hipporag2-table3-{name}" / "report.md").read_text()
        rows = {line.split("|")[1].strip(): line for line in text.splitlines()[::-1] if line.startswith("| ")}
        assert printed in rows["HippoRAG 2"]
        assert "100.0" in rows["ragweave, graph"]
        assert "50.0" in rows["BM25"]
    assert "runs has none of musique.json, " in str(run("reproduce", "hipporag2", "--data", "runs").exception)


def test_reproduce_lists_the_tables(run: Run) -> None:
    assert "table1 with gold" in run("reproduce", "post-fusion").output
    assert isinstance(run("reproduce", "nobody").exception, UsageError)
    assert "has no table 'table9'" in str(run("reproduce", "post-fusion", "table9").exception)


def test_reproduce_shows_its_plan(run: Run, tmp_path: Path) -> None:
    shown = run("reproduce", "slimplm", "1", "--plan").output
    assert "self_ask[k=20,profile=slimplm" in shown
    assert "The paper searched KILT Wikipedia 2019" in shown
    assert "flare: Where we differ" in shown
    assert not (tmp_path / "runs").exists()


def test_reproduce_searches_and_reranks_as_it_is_told(run: Run, tmp_path: Path) -> None:
    """SlimPLM's rows are reranked by E5."""
    assert run("index", "q.jsonl", "--kb", "kb").exit_code == 0
    more = ("--kb", "kb", "--retriever", "bm25", "--rerank", f"{__name__}:FirstLast", "--limit", "1", "--row", "Direct")
    done = run("reproduce", "slimplm", "1", "nq:q.jsonl", *more)
    assert done.exit_code == 0, done.output
    settings = json.loads((tmp_path / "runs" / "slimplm-1-nq" / "run.json").read_text())
    assert (settings["retriever"], settings["rerank"]) == ("bm25", f"{__name__}:FirstLast")


def test_label_writes_rows_and_says_what_was_left_out(run: Run, tmp_path: Path) -> None:
    done = run("label", "filter", "q.jsonl", "--out", "silver", "--measure", "strinc")
    assert done.exit_code == 0, done.output
    assert "labels.jsonl: 4 rows" in done.output
    rows = (tmp_path / "silver" / "labels.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["spans"][0]["text"] == "Bridge 0 opened in 1931."
    judged = run("label", "judge", "q.jsonl", "--out", "known", "--draft", "question")
    assert "4 unknown" in judged.output
    assert "have one class" in judged.output


def test_a_budget_of_calls_or_dollars_stops_a_run(run: Run) -> None:
    command = ("eval", "q.jsonl", "--methods", "concat", "--concurrency", "1", "--price", "1000000,0")
    stopped = run(*command, "--max-calls", "1")
    assert stopped.exit_code == 1
    assert "stopped: the budget is spent: max_calls=1" in stopped.output
    assert "stopped: the budget is spent: max_cost_usd=0.5" in run(*command, "--max-cost", "0.5").output
    assert run(*command, "--max-calls", "50").exit_code == 0
    assert run(*command, "--max-calls", "0").exit_code == 2


def test_models_have_roles() -> None:
    roles = ("generator", "proxy")
    assert models_of(["openai:m?x=1", "proxy=openai:n?a=b"], roles) == {
        "generator": "openai:m?x=1",
        "proxy": "openai:n?a=b",
    }
    assert models_of(None, roles) == {}
    assert prices_of(["0.15,0.60", "proxy=0,0"]) == {"*": (0.15, 0.6), "proxy": (0.0, 0.0)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: models_of(["a:b", "c:d"], ("generator",)), "--model generator: given twice"),
        *(
            (partial(prices_of, [text]), "--price must be INPUT,OUTPUT")
            for text in ("15", "-1,1", "1,nan", "judge=1,inf")
        ),
        (lambda: prices_of(["generatr=1,2"]), "no role 'generatr': did you mean 'generator'"),
    ],
)
def test_wrong_roles_and_prices(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["eval"], "name one of these"),
        (["eval", "no.jsonl"], "no.jsonl: there is no such file"),
        (["eval", "q.jsonl", "--limit", "-1"], "Invalid value for '--limit'"),
        (["eval", "q.jsonl", "--sample", "-1"], "Invalid value for '--sample'"),
        (["eval", "q.jsonl", "--methods", ""], "name a method"),
        (["report", "nowhere"], "nowhere: not a run"),
        (["label", "gold", "q.jsonl", "--out", "x"], "choose one of: judge"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(run: Run, args: list[str], message: str) -> None:
    done = conftest.run(*args)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
