"""Options on the command line: values of the wrong kind are one line and exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command import Run


@pytest.mark.parametrize(
    ("method", "option", "said"),
    [
        ("slimplm", "proxy_temperature=hot", "proxy_temperature must be a number, not 'hot'"),
        ("slimplm", "question_judge=no", "question_judge must be true or false, not 'no'"),
        ("blendfilter", "queries=claims", "queries must be a list: some of question, external"),
        ("blendfilter", "queries=", "queries must be a list"),
        ("filco", "threshold=x", "threshold must be a number, not 'x'"),
    ],
)
def test_a_wrong_value(ragweave: Run, method: str, option: str, said: str) -> None:
    done = ragweave("ask", "Who?", "-m", method, "--option", option)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_text_that_looks_like_a_number_stays_a_text(ragweave: Run, kb: Path) -> None:
    options = ("-m", "skr_knn", "--option", "training=1932", "--kb", str(kb))
    done = ragweave("ask", "Who?", *options)
    assert done.returncode == 2
    assert "1932" in done.stderr
    assert "must be a string" not in done.stderr


def test_crag_looks_again_in_another_knowledge_base(
    ragweave: Run, kb: Path, tmp_path: Path
) -> None:
    (tmp_path / "ferry.txt").write_text("The ferry line Osk was founded in 1902.", "utf-8")
    made = ragweave("index", "ferry.txt", "--kb", "web", "--embedding", "none", cwd=tmp_path)
    assert made.returncode == 0
    ask = ("ask", "When was the ferry line Osk founded?", "-m", "crag", "--kb", str(kb), "--json")
    lexical = ("--model", "extractive?similarity=lexical")
    for spec in ("web", "bm25:web"):
        done = ragweave(*ask, *lexical, "--second-retriever", spec, cwd=tmp_path)
        assert '"answer": "1902"' in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("method", "spec", "said"),
    [
        ("concat", "web", "--second-retriever is where crag looks again"),
        ("crag", "dense", "has no embeddings"),
        ("crag", "nowhere", "no such knowledge base, and no retriever of that name"),
    ],
)
def test_a_second_retriever_that_is_none(
    ragweave: Run, kb: Path, method: str, spec: str, said: str
) -> None:
    done = ragweave("ask", "Who?", "-m", method, "--kb", str(kb), "--second-retriever", spec)
    assert done.returncode == 2
    assert said in done.stderr
