"""HTML without what stands around it, with Trafilatura and without."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


FILL = "Enough words to make this an article and no list of links. " * 4
SIGNS = [
    *"\\*_`#<>~|-+",
    "``",
    "\\\\",
    "\\_",
    "__",
    "1.",
    "2)",
    " [x] ",
    "word",
    " some words ",
    "c#",
]


def article(tmp_path: Path, body: str) -> Loaded:
    pytest.importorskip("trafilatura", reason="needs ragweave[documents]")
    path = tmp_path / "a.html"
    page = f"<article><h1>Top</h1>{body}<p>{FILL}</p></article>"
    path.write_text(f"<html><head><title>T</title></head><body>{page}</body></html>")
    return one(path, ARTICLE)


@st.composite
def paragraphs(draw: st.DrawFn) -> str:
    """Draw a paragraph, but none that begins as if a mark at its start were escaped already."""
    signs = draw(st.lists(st.sampled_from(SIGNS), min_size=1, max_size=10))
    text = " ".join("".join(signs).split())
    escaped = re.match(r"\\[#>+-]|\d+\\[.)]|\|", text)
    return "words" if escaped or "word" not in text else text


@settings(max_examples=60, deadline=None)
@given(st.lists(paragraphs(), min_size=1, max_size=3), st.lists(st.sampled_from(SIGNS), min_size=1))
def test_an_article_is_read_as_it_stands(texts: list[str], signs: list[str]) -> None:
    code = f"x = {''.join(signs)}.\n# y"
    body = "".join(f"<p>{escape(text)}</p>" for text in texts)
    with TemporaryDirectory() as folder:
        page = f"{body}<pre>{escape(code)}</pre><h2>Below_C#</h2>"
        loaded = article(Path(folder), page)
    assert [text for text in [*texts, code] if text not in loaded.text] == []
    assert [(head.level, head.text) for head in loaded.headings] == [(1, "Top"), (2, "Below_C#")]
    shown = [loaded.text[head.start : head.end] for head in loaded.headings]
    assert shown == ["# Top", "## Below_C#"]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (r"<p>Copy \\host\share to C:\_new\.x.</p>", r"Copy \\host\share to C:\_new\.x."),
        (r"<p>Match <code>'\.'</code> and <code>\_</code>.</p>", r"Match `'\.'` and `\_`."),
        ("<p>A List&lt;String&gt; of a &lt; b.</p>", "A List<String> of a < b."),
        ("<p>H<sub>2</sub>O, <u>10 m<sup>3</sup></u>.</p>", "H2O, 10 m^3."),
        ("<p>Write &lt;sub&gt; for it.</p>", "Write <sub> for it."),
        ("<p>1986. A year.</p><ul><li># 2</li><li>- x</li></ul>", "1986. A year.\n\n- # 2\n- - x"),
        ("<table><tr><td>a|b_c</td><td><code>x|y</code></td></tr></table>", "| a|b_c | `x|y` |"),
    ],
)
def test_escapes_of_an_article_leave_it_outside_code(tmp_path: Path, body: str, shown: str) -> None:
    assert shown in article(tmp_path, body).text


@pytest.mark.parametrize(
    "body",
    [
        "<p># 1 in the charts for a month.</p>",
        "<pre># install\npip <b>install</b> it\n# run</pre>",
        "<pre># install<br># run</pre>",
        "<pre><div># install</div><div># run</div></pre>",
        "<ol><li>Run this:<pre><code># install\n# run</code></pre></li></ol>",
        "<p>```</p><p>~~~</p>",
    ],
)
def test_what_is_no_heading_neither_is_one_nor_hides_one(tmp_path: Path, body: str) -> None:
    loaded = article(tmp_path, f"{body}<h2>Below</h2><p>Behind.</p>")
    assert [head.text for head in loaded.headings] == ["Top", "Below"]
    assert loaded.heading_path(loaded.text.index("Behind")) == ["Top", "Below"]


@pytest.mark.parametrize(
    ("html", "shown"),
    [
        ("2<sup>8</sup>-1 in 10<sup>6</sup> m<sup>2</sup>.", "2^8-1 in 10^6 m^2."),
        ("tables<sup>1</sup>. Seas<sup> <a href='#f'>[2]</a></sup>.", "tables^1. Seas"),
        ("e<sup>x<sup>2</sup></sup>, n<sup> k</sup>, a<sup></sup>b.", "e^x^2, n^k, ab."),
        ("The 4<sup>th</sup>, le XX<sup>e</sup>.", "The 4th, le XXe."),
    ],
)
def test_superscripts_keep_apart_from_the_word_before(
    tmp_path: Path, html: str, shown: str
) -> None:
    assert shown in article(tmp_path, f"<p>{html}</p>").text
    assert shown in one(tmp_path / "a.html", PAGE).text


@pytest.mark.parametrize(
    ("html", "heading"),
    [
        ("Introduction<a href='#introduction'>#</a>", "Introduction"),
        ("Spring tides <a href='/tides#spring'><span>¶</span></a>", "Spring tides"),
        ("<a href='#x'>§</a>Learn C#<a href='#x'>\u200b</a>", "Learn C#"),
        ("Ports<a href='#p'>\U0001f517</a><a href='#p'>\uf0c1</a>", "Ports"),
        ("Tides # <a href='#t'>and # ports</a>", "Tides # and # ports"),
    ],
)
def test_a_heading_ends_before_its_link_to_itself(tmp_path: Path, html: str, heading: str) -> None:
    loaded = article(tmp_path, f"<h2>{html}</h2><p>The <a href='#x'>#</a> sign.</p>")
    page = one(tmp_path / "a.html", PAGE)
    assert [head.text for head in loaded.headings] == ["Top", heading]
    assert [head.text for head in page.headings] == ["Top", heading]
    assert "The # sign." in page.text
    (tmp_path / "a.html").write_text(f"<meta charset=utf-8><h1>{html}</h1><p>Text.</p>")
    assert one(tmp_path / "a.html", PAGE).title == heading


def test_text_behind_a_block_of_code_is_kept(tmp_path: Path) -> None:
    text = article(tmp_path, "<pre>a\nb</pre>behind one<pre><code>c\nd</code></pre>behind two").text
    assert "```\na\nb\n```\nbehind one" in text
    assert "```\nc\nd\n```\nbehind two" in text


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
