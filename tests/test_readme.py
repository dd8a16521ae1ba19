"""The README's code runs; that its table and picture are current, `tests/docs/test_sync.py` says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(language: str, path: Path = README) -> list[str]:
    return [text for kind, text in BLOCK.findall(path.read_text("utf-8")) if kind == language]


@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.splitlines()[-1][:40])
def test_code_runs(
    code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec", dont_inherit=True), {})
    if "Mars" in code:
        assert capsys.readouterr().out.lower().startswith(("2 answered 1", "two answered 1"))


def test_the_code_of_contributing_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("contributing")
    monkeypatch.setitem(sys.modules, "contributing", module)
    for code in blocks("python", ROOT / "CONTRIBUTING.md"):
        exec(compile(code, "CONTRIBUTING.md", "exec", dont_inherit=True), vars(module))


@pytest.mark.parametrize("kind", ["methods", "metrics", "datasets", "models", "filters"])
def test_contributing_says_how_to_add(kind: str) -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert f"`ragweave.{kind}`" in text
