"""A method of an outside package: built, installed, listed, asked, evaluated, and tested by its own suite."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.conftest import run
from tests.packages import installed

PACKAGE = Path(__file__).parent / "draft_check"
FACTS = "Norhaven has had a school of engineering since 1874.\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder, on the path, into which pip built and installed the package, without any network."""
    folder = tmp_path_factory.mktemp("outside")
    copy = shutil.copytree(PACKAGE, folder / "source")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    command += ["--disable-pip-version-check", "--target", str(folder / "site"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    with installed(folder / "site") as site:
        yield site


def test_it_is_listed_with_its_package(site: Path) -> None:
    facts = {method["name"]: method for method in json.loads(run("methods", "--json").stdout)}
    assert facts["draft_check"]["package"] == "ragweave-draft-check 0.3.0"
    assert facts["concat"]["package"] == "ragweave"


def test_it_is_asked(site: Path, tmp_path: Path) -> None:
    (tmp_path / "facts.txt").write_text(FACTS, "utf-8")
    assert run("index", "facts.txt", "--kb", "kb", "--embedding", "none", cwd=tmp_path).returncode == 0
    ask = ("ask", "Since when has Norhaven had a school?", "--kb", "kb", "--json", "--method", "draft_check")
    for options, calls in ((), 2), (("-o", "check=false"), 1):
        done = run(*ask, *options, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        out = json.loads(done.stdout)
        assert "1874" in out["answer"]
        assert out["usage"]["calls"] == calls


def test_it_is_evaluated(site: Path, tmp_path: Path) -> None:
    row = {"question": "Since when has Norhaven had a school?", "answers": ["1874"], "passages": [FACTS]}
    (tmp_path / "qa.jsonl").write_text(json.dumps(row), "utf-8")
    methods = ("--methods", "draft_check,draft_check[check=false]", "--passages", "given", "--out", "run")
    done = run("eval", "jsonl:qa.jsonl", *methods, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    records = map(json.loads, (tmp_path / "run/results.jsonl").read_text("utf-8").splitlines())
    assert {record["system"]: record["usage"]["calls"] for record in records} == {
        "draft_check": 2,
        "draft_check[check=false]": 1,
    }


def test_its_own_tests_pass(site: Path, tmp_path: Path) -> None:
    shutil.copy(PACKAGE / "test_draft_check.py", tmp_path)
    options = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]
    path = os.pathsep.join([str(site), *filter(None, sys.path)])
    command, env = [sys.executable, "-m", "pytest", *options, "test_draft_check.py"], {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
