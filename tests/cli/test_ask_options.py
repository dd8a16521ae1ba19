"""Options on the command line: values of the wrong kind are one line and exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.command import LEXICAL, Run

from ragweave.cli.ask import ask, compare
from ragweave.cli.eval import evaluate
from ragweave.cli.main import app
from ragweave.cli.options import for_method, with_k
from ragweave.errors import UsageError


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


@pytest.mark.parametrize("command", [ask, compare, evaluate])
def test_k_is_given_once(command: Any, tmp_path: Path) -> None:
    given = (None, "hotpotqa:dev.json") if command is evaluate else ("Who?",)
    more = {"out": tmp_path / "run"} if command is evaluate else {}
    with pytest.raises(UsageError, match="-k 2 and --option k=3: k is given twice"):
        command(*given, k=2, option=["samples=1", "k=3"], model=LEXICAL[1], **more)


def test_the_same_k_twice_is_no_conflict() -> None:
    assert with_k(["k = 2", "order=reversed"], 2) == ["k = 2", "order=reversed", "k=2"]
    assert with_k(["k=3"], None) == ["k=3"]


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


def test_methods_that_never_look_again_stand_beside_one_that_does(ragweave: Run, kb: Path) -> None:
    ask = ("compare", "Who built the bridge?", "--kb", str(kb), "--second-retriever", "bm25")
    done = ragweave(*ask, "--methods", "concat,crag", "--model", LEXICAL[1], "--json")
    assert done.returncode == 0, done.stderr


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


EMPTY = [
    *(("ask", "Who?", flag, "") for flag in ("--model", "--proxy", "--judge", "--rewriter")),
    ("ask", "Who?", "--filter-model", " "),
    ("compare", "Who?", "--model", ""),
    ("chat", "--model", ""),
    ("serve", "direct", "--model", ""),
    ("mcp", "--model", ""),
    ("eval", "nq:none.json", "--out", "run", "--model", ""),
    ("study", "k", "nq:none.json", "--out", "run", "--model", ""),
    ("reproduce", "filco", "2", "--model", ""),
    ("reproduce", "slimplm", "--proxy", "small", "--proxy", ""),
]


@pytest.mark.parametrize("args", EMPTY)
def test_a_model_that_is_empty_is_refused(args: tuple[str, ...]) -> None:
    flag = [one for one in args if one.startswith("--")][-1]
    with pytest.raises(UsageError, match=f"{flag} is empty: name a model"):
        app(list(args), standalone_mode=False)


@pytest.mark.parametrize(
    "args", [("ask", "q"), ("compare", "q", "--methods", "direct"), ("chat",), ("serve", "direct")]
)
def test_a_key_that_is_missing_is_the_callers_mistake(
    args: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("langchain_openai", reason="the model needs the openai extra")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match="no OpenAI key"):
        app([*args, "--model", "openai:m"], standalone_mode=False)


def test_methods_take_the_options_that_they_have() -> None:
    texts = ["top=2", "k = 3", "tops=1"]
    assert for_method(texts, "filco", ["concat", "filco"]) == texts
    assert for_method(texts, "concat", ["concat", "filco"]) == ["k = 3", "tops=1"]
    assert for_method(texts, "concat", ["concat"]) == texts
