"""README, CONTRIBUTING and docs: their code runs, what is generated is current, and the site builds offline."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
import yaml
from typer.main import get_command

from ragweave import METHODS
from ragweave.cli.main import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SKILL = ROOT / "skills" / "ragweave" / "SKILL.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
MODULES = sorted(path for path in (ROOT / "src").rglob("*.py") if ">>> " in path.read_text("utf-8"))
FILE = re.compile(r"\]\((?!https?:|\.\./\.\./)([^)#\s]+)")


@pytest.mark.filterwarnings("ignore:The v3 streaming protocol")
@pytest.mark.parametrize(
    "page", [page for page in (*PAGES, SKILL) if BLOCK.search(page.read_text("utf-8"))], ids=lambda page: page.name
)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in BLOCK.findall(page.read_text("utf-8")):
        exec(compile(block, page.name, "exec", dont_inherit=True), vars(module))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_the_examples_of_docstrings_hold(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    assert doctest.testmod(importlib.import_module(name)).failed == 0  # noqa: TID251 - a test of all modules


@pytest.mark.parametrize("page", [*PAGES, SKILL], ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    links = FILE.findall(page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_readme_names_every_method() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert [method.name for method in METHODS.ours() if f"`{method.name}`" not in text] == []


def test_the_skill_names_methods_and_commands_that_exist() -> None:
    text = SKILL.read_text("utf-8")
    assert yaml.safe_load(text.split("---")[1]).keys() == {"name", "description"}
    methods = re.search(r"## Choose a method\n(.*?)\n## ", text, re.S)
    assert methods is not None
    assert set(re.findall(r"`(\w+)`", methods[1])) <= set(METHODS)
    group: Any = get_command(app)
    assert set(re.findall(r"^ragweave (\w+)", text, re.M)) <= set(group.list_commands(None))


def test_commands_and_options_in_the_pages_exist() -> None:
    """A command stands at the start of a line or of a code span."""
    group: Any = get_command(app)
    context = typer.Context(group)
    unknown = []
    for page in [*PAGES, SKILL]:
        for words in re.findall(r"(?:^|`)ragweave ([a-z]+ [^\n`]*|[a-z]+(?=`))", page.read_text("utf-8"), re.M):
            name, _, rest = words.partition("#")[0].partition(" ")
            command = group.get_command(context, name) if name in group.list_commands(context) else None
            parameters = command.params if command else ()
            options = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
            given = re.findall(r"(?<!\S)--?[a-z][\w-]*", rest.partition(" && ")[0])
            if command is None or not set(given) <= options:
                unknown.append(f"{page.name}: ragweave {words}")
    assert unknown == []


@pytest.mark.nightly
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip('the site needs: pip install "ragweave[docs]"')
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    loaded = re.compile(
        r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//|<link rel=["']?(?:stylesheet|preload)["']? href=["']?(?:https?:)?//"""
    )
    assert [str(page) for page in tmp_path.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []
    for method in METHODS.ours():
        page = (tmp_path / "methods" / method.name / "index.html").read_text("utf-8")
        assert all(name in page for name in method.options.model_fields)
        assert (tmp_path / "methods" / f"{method.name}.svg").is_file()
    assert "methods/crag/" in (tmp_path / "llms.txt").read_text("utf-8")
