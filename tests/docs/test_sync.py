"""What is generated from the registries is current, and `make sync` brings it up to date."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest

from ragweave import METHODS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sync", ROOT / "docs" / "sync.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def copy(tmp_path: Path, script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the generated files alone, into which the script writes."""
    for name in [*script.BLOCKS, "langgraph.json", "src/ragweave/names.py"]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("docs/diagrams", "docs/assets"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "docs/comparison.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    return tmp_path


def test_the_repository_is_current(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--check"]) == 0, capsys.readouterr().err


def test_a_second_run_changes_nothing(
    script: ModuleType, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert script.main([]) == 0
    assert capsys.readouterr().err == "everything generated is current\n"
    assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}


def test_what_is_stale_is_named_with_the_command_and_then_mended(
    script: ModuleType, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = copy / "README.md"
    good = readme.read_text("utf-8")
    readme.write_text(good.replace("| `react` |", "| `reactt` |"), "utf-8")
    (copy / "langgraph.json").write_text('{"dependencies": ["./mine"], "graphs": {}}', "utf-8")
    (copy / "docs/diagrams/react.mmd").write_text("old", "utf-8")
    (copy / "src/ragweave/names.py").write_text("", "utf-8")
    (copy / "docs/diagrams/gone.mmd").write_text("a method that is no more", "utf-8")
    assert script.main(["--check"]) == 1
    said = capsys.readouterr().err
    for name in ("README.md", "langgraph.json", "docs/diagrams/react.mmd", "gone.mmd", "names.py"):
        assert name in said
    assert "docs/models.md" not in said
    assert "make sync" in said
    assert script.main([]) == 0
    assert script.main(["--check"]) == 0
    assert readme.read_text("utf-8") == good
    assert not (copy / "docs/diagrams/gone.mmd").exists()
    settings = json.loads((copy / "langgraph.json").read_text("utf-8"))
    assert settings["dependencies"] == ["./mine"]
    assert list(settings["graphs"]) == ["chat", *(one.name for one in METHODS.ours())]
