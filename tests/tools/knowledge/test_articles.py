"""HTML without what stands around it, with Trafilatura and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.markup import Loaded, UnreadableError

PAGE = Settings(embedding=None, html="page")
ARTICLE = Settings(embedding=None, html="article")
MENU = "".join(f"<a href='/{name}'>{name}</a> " for name in ("Start", "Shop", "Jobs"))
NEWS = f"""<html><head><title>Tides</title></head><body><div class="menu">{MENU}</div>
<div id="cookie-banner"><p>We use cookies. <button>Accept all</button></p></div>
<div class="content"><h1>Tides</h1><p>The moon pulls the sea, and so does the sun.</p>
<h2>Spring tides</h2><p>At new and full moon the two pull together: the tide is highest.</p>
<table><tr><th>Port</th><th>Range</th></tr><tr><td>Bristol</td><td>12 m</td></tr></table>
<p>Let h = a*cos(w*t).</p></div><div class="footer">Imprint | Terms</div></body></html>"""


def one(path: Path, settings: Settings) -> Loaded:
    (loaded,) = load(path, settings)
    assert isinstance(loaded, Loaded)
    return loaded


def test_without_trafilatura_navigation_elements_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(
        "<header>Harbour News</header><nav><ul><li>Home</ul></nav><main>Text<footer>f</footer></main>"
        "<aside>Note</aside><footer>Imprint</footer>"
    )
    assert one(path, PAGE).text == "Harbour News\nText\nNote"
    path.write_text("<nav>Home</nav><footer>Imprint</footer>")
    assert one(path, PAGE).text == "Home\nImprint"


def test_the_article_alone_with_headings_and_tables(tmp_path: Path) -> None:
    pytest.importorskip("trafilatura", reason="needs ragweave[documents]")
    path = tmp_path / "a.html"
    path.write_text(NEWS)
    loaded = one(path, ARTICLE)
    for gone in ("Shop", "cookies", "Imprint"):
        assert gone not in loaded.text
        assert gone in one(path, PAGE).text
    assert "| Bristol | 12 m |" in loaded.text
    assert "a*cos(w*t)" in loaded.text
    assert loaded.title == "Tides"
    assert loaded.heading_path(loaded.text.index("highest")) == ["Spring tides"]


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<nav>Home</nav><p>The password is swordfish.</p>", "The password is swordfish."),
        ("<p>" * 3000 + "deep", "deep"),
        ("<div>" * 3000 + "deep", "deep"),
        ("<a " * 50 + "text", None),
    ],
)
def test_short_and_broken_pages_lose_nothing(tmp_path: Path, html: str, text: str | None) -> None:
    pytest.importorskip("trafilatura", reason="needs ragweave[documents]")
    path = tmp_path / "a.html"
    path.write_text(html)
    assert one(path, ARTICLE).text.strip() == (text or html)


def test_what_is_read_is_settled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.html").write_text(NEWS)
    monkeypatch.setattr("ragweave.tools.knowledge.manifest.find_spec", lambda _name: None)
    with KnowledgeBase.create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        assert kb.settings.html == "page"
    monkeypatch.undo()
    with KnowledgeBase.open_or_create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        assert kb.settings.html in ("page", "article")  # never written to: settled anew
        kb.index_paths([tmp_path / "a.html"])
    manifest = tmp_path / "kb" / "manifest.json"
    values = json.loads(manifest.read_text())
    del values["settings"]["html"]
    manifest.write_text(json.dumps(values))  # as earlier versions wrote it
    with KnowledgeBase.open_or_create(tmp_path / "kb", settings=Settings(embedding=None)) as kb:
        assert kb.settings.html == "page"


def test_articles_without_trafilatura_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.html").write_text(NEWS)
    monkeypatch.setattr("ragweave.tools.knowledge.articles.find_spec", lambda _name: None)
    with pytest.raises(UnreadableError, match=r"needs an extra: pip install .ragweave.documents"):
        one(tmp_path / "a.html", ARTICLE)
