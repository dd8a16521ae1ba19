"""The documentation: its code runs, its pages are built from what the package says, offline."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest

from ragweave import METHODS
from ragweave.cli.methods import KINDS
from ragweave.corpus import corpus_documents

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = {
    str(path.relative_to(DOCS)): blocks
    for path in sorted(DOCS.rglob("*.md"))
    if (blocks := BLOCK.findall(path.read_text("utf-8")))
}


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for block in PAGES[page]:
        exec(compile(block, page, "exec", dont_inherit=True), vars(module))


def test_own_method_takes_about_fifty_lines() -> None:
    lines = [line for line in PAGES["howto/method.md"][0].splitlines() if line.strip()]
    wiring = [line for line in lines if not line.startswith(("from ", "import "))]
    assert len(wiring) <= 50


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if importlib.util.find_spec("mkdocs") is None:
        pytest.skip('the site needs: pip install "ragweave[docs]"')
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


class Page(HTMLParser):
    """What a page loads, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.text = ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("script", "img", "iframe"):
            self.loaded.append(found.get("src") or "")
        elif tag == "link" and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(found.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(METHODS)
    for path in pages:
        outside = [one for one in Page(path).loaded if re.match(r"(https?:)?//", one)]
        assert not outside, path
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text("utf-8"))


def test_the_home_has_a_picture_a_result_and_the_comparison(site: Path) -> None:
    home = Page(site / "index.html")
    pictures = [one for one in home.loaded if one.startswith("assets/") and "javascripts" not in one]
    names = {one.partition("#")[0] for one in pictures}
    assert names >= {"assets/session.svg", "assets/trace.png", "assets/query_blending.png"}
    assert all((site / name).is_file() for name in names)
    assert "FlashRAG" in home.text
    assert not (site / "comparison").exists()
    assert not list(site.rglob("*.py"))


@pytest.mark.parametrize("name", METHODS)
def test_a_page_a_method(site: Path, name: str) -> None:
    method = METHODS[name]
    page = Page(site / "methods" / name / "index.html")
    assert method.summary in page.text
    assert method.paper in page.text
    assert "When to use it" in page.text
    assert any(one.endswith(f"{name}.svg") for one in page.loaded)
    assert (site / "methods" / f"{name}.svg").read_text("utf-8").startswith("<svg")
    for option in method.options.model_fields:
        assert option in page.text
    for prompt in method.prompts:
        assert prompt in page.text


def test_glossary_and_api_are_there(site: Path) -> None:
    glossary = Page(site / "glossary" / "index.html").text
    assert all(article.metadata["title"] in glossary for article in corpus_documents())
    api = Page(site / "api" / "index.html").text
    for name in ("build_graph", "as_tool", "KnowledgeBase", "majority_vote", "UsageError"):
        assert name in api


def test_every_entry_point_group_can_be_listed() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert set(re.findall(r"\| `ragweave\.([a-z]+)` \|", page)) == set(KINDS)
