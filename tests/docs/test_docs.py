"""README, CONTRIBUTING and docs: their code runs, what is generated is current, and the site builds offline."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ragweave import METHODS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"\]\((?!https?:|\.\./\.\./)([^)#\s]+)")


@pytest.mark.parametrize(
    "page", [one for one in PAGES if BLOCK.search(one.read_text("utf-8"))], ids=lambda one: one.name
)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in BLOCK.findall(page.read_text("utf-8")):
        exec(compile(block, page.name, "exec", dont_inherit=True), vars(module))


@pytest.mark.parametrize("page", PAGES, ids=lambda one: one.name)
def test_links_lead_to_files(page: Path) -> None:
    links = FILE.findall(page.read_text("utf-8"))
    assert [one for one in links if not (page.parent / one).exists()] == []


def test_readme_is_short_and_names_every_method() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.encode()) <= 8_000
    assert [one.name for one in METHODS.ours() if f"`{one.name}`" not in text] == []


def test_docs_stay_short() -> None:
    prose = [
        re.sub(r"^(```|~~~).*?^\1$|^\|[^\n]*$", "", page.read_text("utf-8"), flags=re.S | re.M) for page in PAGES[2:]
    ]
    assert sum(len(one.split()) for one in prose) <= 14_000


def test_what_is_generated_is_current() -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "sync.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.nightly
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip('the site needs: pip install "ragweave[docs]"')
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = re.compile(
        r"""<(?:script|img|iframe)[^>]*\ssrc=["']?(?:https?:)?//|<link rel=["']?(?:stylesheet|preload)["']? href=["']?(?:https?:)?//"""
    )
    assert [str(page) for page in tmp_path.rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []
    for one in METHODS.ours():
        page = (tmp_path / "methods" / one.name / "index.html").read_text("utf-8")
        assert all(name in page for name in one.options.model_fields)
        assert (tmp_path / "methods" / f"{one.name}.svg").is_file()
    assert "methods/crag/" in (tmp_path / "llms.txt").read_text("utf-8")
