"""mypy accepts right code against the public face, and says what is wrong with the rest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RIGHT = ROOT / "tests" / "typing_check.py"

HEAVY = (
    *("torch", "transformers", "sentence_transformers", "tokenizers", "safetensors", "accelerate"),
    *("datasets", "peft", "trl", "sklearn", "numpy", "matplotlib", "chromadb", "langchain_chroma"),
    *("openai", "langchain_openai", "langgraph_api", "langgraph_sdk", "langsmith", "httpx"),
    *("aiohttp", "fastapi", "starlette", "uvicorn", "pypdf", "bs4"),
)
"""What the public types don't depend on, and what takes mypy a minute to read."""

CONFIG = f"""
[mypy]
python_version = 3.11
strict = True
enable_error_code = redundant-expr, truthy-bool, ignore-without-code
ignore_missing_imports = True
[mypy-{",".join(f"{name}.*" for name in HEAVY)}]
follow_imports = skip
"""

WRONG = """
from langgraph.types import Overwrite

from ragweave.nodes.ask import Ask, Reply
from ragweave.nodes.options import Options
from ragweave.nodes.ask import Prompt
from ragweave.nodes.step import Context, Goto, Route, Step, Work, pure
from ragweave.state import Branch, RAGState, Update


class MyState(RAGState):
    my_notes: list[str]


def reads(state: RAGState, context: Context[Options]) -> Work:
    return pure({"answer": state["anwser"]})  # wrong: no key "anwser"


def writes(state: RAGState, context: Context[Options]) -> Work:
    return pure({"anwser": state["answer"]})  # wrong: Extra key "anwser"


def writes_another_type(state: RAGState, context: Context[Options]) -> Work:
    return pure({"answer": 5})  # wrong: expression has type "int"


def adds_passages(state: RAGState, context: Context[Options]) -> Work:
    return pure({"passages": state["passages"]})  # wrong: has type "Overwrite"


def reads_its_own(state: MyState, context: Context[Options]) -> Work:
    return pure({"answer": state["my_note"][0]})  # wrong: no key "my_note"


def takes_an_option(state: RAGState, context: Context[Options]) -> Work:
    return pure({"round": context.options.kk})  # wrong: no attribute "kk"


def replies(state: RAGState, reply: Reply, context: Context[Options]) -> Update:
    return {"writen": reply.text}  # wrong: Extra key "writen"


def routes(state: RAGState, options: Options) -> Goto:
    return "a" if state["hopps"] else "b"  # wrong: no key "hopps"


def branch(payload: Branch, context: Context[Options]) -> Work:
    return pure({"answer": payload["answer_kind"]})  # wrong: no key "answer_kind"
"""


STRANGER = """
from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.documents import Document

from ragweave import METHODS, KnowledgeBase, MethodName, RAGOutput, build_chat, build_graph
from ragweave.evaluation.metrics import Metric, given_answer
from ragweave.graphs import Method, Parts, CompiledGraph, answer_prompts
from ragweave.graphs.fragments import single_round
from ragweave.nodes.answer import AnswerStep
from ragweave.nodes.options import Options


@dataclass(frozen=True, kw_only=True)
class FirstOptions(Options):
    first: int = 1


def build(parts: Parts[FirstOptions]) -> CompiledGraph:
    def some(passages: Sequence[Document], options: FirstOptions) -> list[list[Document]]:
        return [list(passages[: options.first])]

    return single_round(parts, AnswerStep("answer", "concat"), some)


METHOD = Method(
    name="first",
    summary="Read the best passages alone.",
    paper="none",
    best="p",
    worst="p",
    options=FirstOptions,
    build=build,
    prompts=answer_prompts("concat"),
)


def answers(name: MethodName, kb: KnowledgeBase) -> list[str]:
    graphs = [
        build_graph(METHOD, first=2),
        build_graph(METHODS[name], k=3),
        build_graph("filco", retriever=kb.as_retriever(mode="bm25"), top=2, samples=3),
    ]
    outputs: list[RAGOutput] = [graph.invoke({"question": "Who?"}) for graph in graphs]
    said = build_chat("crag", strips=2).invoke({"messages": [("user", "Who?")]})
    return [*(one["answer"] for one in outputs), said["answer"]]


WORDS = Metric(
    name="words",
    label="Words",
    summary="Length.",
    compute=lambda question, state: len(given_answer(state).split()) / 100,
)


def mistakes(kb: KnowledgeBase) -> None:
    build_graph("concatt")  # wrong: No overload variant
    build_graph("concat", sampels=3)  # wrong: No overload variant
    build_graph("concat", top=3)  # wrong: No overload variant
    build_graph("concat", k="5")  # wrong: No overload variant
    build_graph("filco", granularity="word")  # wrong: No overload variant
    build_chat("crag", stripes=3)  # wrong: No overload variant
    build_graph("concat").invoke({"question": "Who?"})["anwser"]  # wrong: no key "anwser"
    kb.as_retriever(mode="bm52")  # wrong: incompatible type
"""
"""A small package of somebody else's, and mistakes that people make."""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what mypy says of the right file and of the wrong one."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typing")
    wrong, config = folder / "wrong.py", folder / "mypy.ini"
    wrong.write_text(WRONG, "utf-8")
    (folder / "stranger.py").write_text(STRANGER, "utf-8")
    config.write_text(CONFIG, "utf-8")
    own = ["--config-file", str(config), "--cache-dir", str(ROOT / ".mypy_cache" / "typing")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            *own,
            "--no-error-summary",
            str(RIGHT),
            *map(str, folder.glob("*.py")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_right_code_passes(said: str) -> None:
    wrong = [line for line in said.splitlines() if "typing_check.py" in line and "error:" in line]
    assert not wrong


def _wrong(source: str) -> dict[int, str]:
    """Return what a file says is wrong, by line."""
    return {
        number: line.partition("# wrong: ")[2]
        for number, line in enumerate(source.splitlines(), start=1)
        if "# wrong: " in line
    }


@pytest.mark.parametrize(("name", "source"), [("wrong", WRONG), ("stranger", STRANGER)])
def test_a_mistake_is_an_error_and_nothing_else_is(said: str, name: str, source: str) -> None:
    pattern = rf"{name}\.py:(\d+): error: (.*)"
    found = {int(match[1]): match[2] for match in re.finditer(pattern, said)}
    expected = _wrong(source)
    assert found.keys() == expected.keys()
    for number, text in expected.items():
        assert text in found[number]


def test_pyright_finds_the_same_mistakes_in_somebody_elses_package(tmp_path: Path) -> None:
    pyright = shutil.which("pyright") or shutil.which("pyright", path=Path(sys.executable).parent)
    if pyright is None:
        pytest.skip("pyright is not installed")
    (tmp_path / "stranger.py").write_text(STRANGER, "utf-8")
    settings = {"typeCheckingMode": "strict", "reportUnusedExpression": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), "utf-8")
    command = [pyright, "--outputjson", "--pythonpath", sys.executable, "stranger.py"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    listed = json.loads(done.stdout)["generalDiagnostics"]
    found = {one["range"]["start"]["line"] + 1 for one in listed if one["severity"] == "error"}
    assert found == _wrong(STRANGER).keys(), done.stdout
