"""A file of `ragweave tune` as a method of `ask`, `chat`, `why` and `eval`; variants that name their search."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.cli.conftest import run

from ragweave.cli.options import DEFAULT_KB, Setup
from ragweave.cli.serve import app_over
from ragweave.evaluation.folder import read_results
from ragweave.graphs.specs import split_systems
from ragweave.testing import ScriptedModel

QUESTION = "When was the Old Bridge of Varn opened?"


@pytest.fixture
def choice(kb: Path, scripted: dict[str, ScriptedModel]) -> str:
    scripted["x"] = ScriptedModel(script=["1932"])
    text = f"method: concat\noptions: {{k: 1}}\nretriever: bm25\nkb: {kb.name}\nmodels: {{generator: 'scripted:x'}}\n"
    (kb.parent / "choice.yaml").write_text(text)
    return str(kb.parent / "choice.yaml")


def test_commands_take_its_model_search_and_knowledge_base(choice: str, tmp_path: Path) -> None:
    assert run("ask", QUESTION, "--method", choice, cwd=tmp_path).stdout.startswith("Answer: 1932 [1]")
    assert "1932" in run("chat", "--method", choice, cwd=tmp_path, stdin=f"{QUESTION}\n").stdout
    assert "The answer is right." in run("why", QUESTION, "--expect", "1932", "-m", choice, cwd=tmp_path).stdout
    assert run("ask", QUESTION, "--method", choice, "--model", "extractive", cwd=tmp_path).stdout.startswith(
        "Answer: The Old Bridge"
    )


def test_a_conversation_goes_on_about_its_knowledge_base(choice: str, tmp_path: Path) -> None:
    assert run("ask", QUESTION, "--method", choice, cwd=tmp_path).returncode == 0
    done = run("chat", "-c", "--method", choice, cwd=tmp_path, stdin=f"{QUESTION}\n")
    assert (done.returncode, "1932" in done.stdout) == (0, True), done.stderr


def test_a_variant_searches_the_knowledge_base_that_it_names(kb: Path, tmp_path: Path) -> None:
    for spec in (f"concat[retriever=bm25:{kb}]", f"concat[retriever={kb}]"):
        assert "1932" in run("ask", QUESTION, "--method", spec, cwd=tmp_path).stdout
        assert "The answer is right." in run("why", QUESTION, "--expect", "1932", "-m", spec, cwd=tmp_path).stdout


def test_serve_answers_with_its_method_options_and_prompts(choice: str, scripted: dict[str, ScriptedModel]) -> None:
    with Path(choice).open("a") as file:
        file.write("prompts: {concat: 'In one word. {passages} Question: {question} {unknown}'}\n")
    setup = Setup.open([choice], DEFAULT_KB, None, None, "auto", "", "", "", None)
    limits = {"hosts": ("testserver",), "concurrency": 1}
    with TestClient(app_over(setup, [choice], False, limits, keys="", pictures=False, threads="")) as client:
        assert choice in [model["id"] for model in client.get("/v1/models").json()["data"]]
        body = {"model": choice, "messages": [{"role": "user", "content": QUESTION}]}
        done = client.post("/v1/chat/completions", json=body)
    assert done.json()["choices"][0]["message"]["content"] == "1932"
    prompt = scripted["x"].calls[-1].text
    assert "In one word." in prompt
    assert prompt.count("<passage") == 1


def test_eval_compares_it_with_variants_that_search_otherwise(choice: str, tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text(json.dumps({"question": QUESTION, "answers": ["1932"]}))
    methods = f"concat[retriever=bm25,k=2],concat[retriever=graph,k=1],{choice}"
    done = run("eval", "q.jsonl", "--methods", methods, "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = {record["system"]: record for record in read_results(tmp_path / "run")}
    assert {record["answer"] for record in records.values()} == {"1932"}
    assert [len(records[name]["passages"]) for name in split_systems(methods)] == [2, 1, 1]
