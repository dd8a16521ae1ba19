"""mypy accepts right code against the public face, and says what is wrong with the rest."""

from __future__ import annotations

import re
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


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return what mypy says of the right file and of the wrong one."""
    pytest.importorskip("mypy")
    folder = tmp_path_factory.mktemp("typing")
    wrong, config = folder / "wrong.py", folder / "mypy.ini"
    wrong.write_text(WRONG, "utf-8")
    config.write_text(CONFIG, "utf-8")
    own = ["--config-file", str(config), "--cache-dir", str(ROOT / ".mypy_cache" / "typing")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *own, "--no-error-summary", str(RIGHT), str(wrong)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_right_code_passes(said: str) -> None:
    assert "typing_check.py" not in said, said


def test_a_misspelt_key_is_an_error_and_nothing_else_is(said: str) -> None:
    lines = WRONG.splitlines()
    expected = {
        number: line.partition("# wrong: ")[2]
        for number, line in enumerate(lines, start=1)
        if "# wrong: " in line
    }
    found = {
        int(match[1]): match[2] for match in re.finditer(r"wrong\.py:(\d+): error: (.*)", said)
    }
    assert found.keys() == expected.keys()
    for number, text in expected.items():
        assert text in found[number]
