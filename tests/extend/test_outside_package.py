"""A method of an outside package: built, installed, listed, drawn, asked, evaluated, served."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ragweave.testing import MethodTests

PACKAGE = Path(__file__).parent / "draft_check"
SOURCE = (PACKAGE / "draft_check.py").read_text("utf-8")
FACTS = "Norhaven has had a school of engineering since 1874.\n"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder into which pip built and installed the package, without any network."""
    folder = tmp_path_factory.mktemp("outside")
    copy = shutil.copytree(PACKAGE, folder / "source")
    target = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    done = subprocess.run([*command, str(copy)], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    return target


def test_it_is_one_file_of_at_most_eighty_lines() -> None:
    assert len(SOURCE.splitlines()) <= 80


def test_it_is_listed_with_its_package(installed: Path, python: Any) -> None:
    done = python(installed, "methods")
    assert done.returncode == 0, done.stderr
    (line,) = [one for one in done.stdout.splitlines() if one.strip().startswith("draft_check")]
    assert "ragweave-draft-check 0.3.0" in line
    facts = json.loads(python(installed, "methods", "--json").stdout)
    assert facts[0]["package"] == "ragweave"
    assert facts[-1]["name"] == "draft_check"
    assert facts[-1]["package"] == "ragweave-draft-check 0.3.0"
    assert facts[-1]["options"]["check"] is True
    assert facts[-1]["when"]


def test_it_is_drawn(installed: Path, python: Any) -> None:
    done = python(installed, "draw", "draft_check")
    assert "drafted -.-> check;" in done.stdout, done.stderr


def test_it_is_asked(installed: Path, python: Any, tmp_path: Path) -> None:
    (tmp_path / "facts.txt").write_text(FACTS, "utf-8")
    index = ("index", "facts.txt", "--kb", "kb", "--embedding", "none")
    assert python(installed, *index, cwd=tmp_path).returncode == 0
    ask = ("ask", "Since when has Norhaven had a school?", "--kb", "kb", "--json")
    ask += ("--method", "draft_check", "--model", "extractive?similarity=lexical")
    for options, calls in ((), 2), (("-o", "check=false"), 1):
        done = python(installed, *ask, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        out = json.loads(done.stdout)
        assert out["answer"] == "1874"
        assert out["usage"]["calls"] == calls
        assert len(out["passages"]) == 1


def test_it_is_evaluated(installed: Path, python: Any, tmp_path: Path) -> None:
    row = {
        "question": "Since when has Norhaven had a school?",
        "answers": ["1874"],
        "passages": [FACTS],
    }
    (tmp_path / "qa.jsonl").write_text(json.dumps(row), "utf-8")
    done = python(
        installed,
        *("eval", "jsonl:qa.jsonl", "--methods", "draft_check,draft_check[check=false]"),
        *("--corpus", "given", "--model", "extractive?similarity=lexical", "--out", "run"),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "run/results.jsonl").read_text("utf-8").splitlines()
    records = {one["system"]: one for one in map(json.loads, lines)}
    assert records["draft_check"]["scores"]["em"] == 1.0
    assert records["draft_check"]["usage"]["calls"] == 2
    assert records["draft_check[check=false]"]["usage"]["calls"] == 1
    settings = json.loads((tmp_path / "run/run.json").read_text("utf-8"))
    assert settings["versions"]["ragweave-draft-check"] == "0.3.0"


SERVED = """
import asyncio, os, sys
from types import SimpleNamespace
from ragweave.serving import studio
from ragweave.serving.studio import factory

os.environ["RAGWEAVE_MODEL"] = "extractive?similarity=lexical"
context = {"check": False}
run = SimpleNamespace(execution_runtime=SimpleNamespace(context=context))
look = SimpleNamespace(execution_runtime=None)
for make in (studio.draft_check, factory("draft_check")):
    drawn = asyncio.run(make(look))
    assert "check" in drawn.get_context_jsonschema()["properties"]
    out = asyncio.run(make(run)).invoke({"question": "What does BlendFilter blend?"})
    print(out["usage"]["calls"], out["status"])
"""


def test_it_is_served_in_studio(installed: Path, python: Any) -> None:
    done = python(installed, code=SERVED)
    assert done.stdout.split() == ["1", "answered"] * 2, done.stderr


def test_its_own_tests_pass(installed: Path, python: Any, tmp_path: Path) -> None:
    shutil.copy(PACKAGE / "test_draft_check.py", tmp_path)
    code = (
        "import sys, pytest\n"
        "sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', '-o', "
        "'asyncio_default_fixture_loop_scope=function', 'test_draft_check.py']))"
    )
    done = python(installed, code=code, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def variant(last: str) -> ModuleType:
    """Return the package's module with a last node that returns `last`."""
    wrong = (
        f'graph.add_node("wrong", lambda state: {last})\n'
        '    graph.add_edge("vote", "wrong")\n    graph.add_edge("wrong", END)'
    )
    assert 'graph.add_edge("vote", END)' in SOURCE
    source = SOURCE.replace('graph.add_edge("vote", END)', wrong)
    head = "from langgraph.types import Overwrite\nfrom ragweave.state import no_usage\n"
    module = ModuleType("variant")
    sys.modules["variant"] = module
    exec(compile(head + source, "variant.py", "exec", dont_inherit=True), vars(module))
    return module


@pytest.fixture
def _forgotten() -> Iterator[None]:
    yield
    sys.modules.pop("variant", None)


@pytest.mark.usefixtures("_forgotten")
@pytest.mark.parametrize(
    ("last", "test"),
    [
        (
            '{"passages": Overwrite(state["passages"][:1])}',
            "test_passages_are_what_the_final_prompts_showed",
        ),
        ('{"truncated": True}', "test_truncated_tells_whether_a_limit_ended_the_run"),
        ('{"usage": {**no_usage(), "calls": 1}}', "test_usage_counts_the_calls_made"),
    ],
    ids=["passages", "truncated", "usage"],
)
def test_the_suite_catches_a_wrong(last: str, test: str) -> None:
    suite: Any = type(
        "Suite",
        (MethodTests,),
        {
            "method": variant(last).METHOD,
            "replies": {"draft": "Ada Brenner", "check": "Ada Brenner"},
        },
    )
    with pytest.raises(AssertionError):
        getattr(suite(), test)()
