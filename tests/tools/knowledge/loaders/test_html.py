from tests.tools.knowledge.loaders.made import read

PAGE = """<html><head><title>Winch</title></head><body><nav>Menu</nav><div class="cookie-bar">Accept</div>
<main><h1>Use<a href="#use">#</a></h1><aside>Stand clear.</aside><figure><img alt="A red lever" src="x">
<figcaption>Load 12 t.</figcaption></figure><p>Starts <time>3 May</time>, at 10<sup>3</sup> m on the
3<sup>rd</sup>.</p><table><tr><th>A</th></tr><tr><td><a href="x">b</a></td></tr></table>
<pre><code>crane --lift
  now</code></pre><ol start="4"><li>Open.</li></ol><ol type="a"><li>Oil.</li><li>Belt.</li></ol>
<p hidden>Draft</p></main><footer>Imprint</footer></body></html>"""


def test_what_readers_see_is_kept():
    (one,), _ = read("a.html", PAGE)
    for said in (
        "Stand clear.",
        "A red lever",
        "Load 12 t.",
        "Starts 3 May, at 10^3 m on the",
        "3rd.",
        "| b |",
        "crane --lift\n  now",
        "4. Open.",
        "a. Oil.",
        "b. Belt.",
    ):
        assert said in one.text
    for said in ("Menu", "Accept", "Imprint", "Draft", "Winch"):
        assert said not in one.text
    assert (one.title, one.headings[0].text) == ("Winch", "Use")
    assert one.text[one.tables[0].body :].startswith("| b |")


def test_each_article_keeps_its_heading():
    articles = "".join(f"<article><h2>News {n}</h2><p>Text {n}.</p></article>" for n in (1, 2))
    (one,), _ = read("a.html", f"<title>T</title><body>{articles}</body>")
    assert one.place(one.text.index("Text 2"))["heading_path"] == ["News 2"]


def test_text_beside_elements_is_read_once():
    (one,), _ = read(
        "a.html", "<div>One.<br><br>Two.<h2>H</h2>Three.<ul><li>Four.</li></ul>Five.</div>"
    )
    words = [word for word in one.text.split() if word.endswith(".")]
    assert words == ["One.", "Two.", "Three.", "Four.", "Five."]


def test_encodings_of_pages():
    for head, encoding in [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ("", "utf-8"),
        ("", "cp1252"),
    ]:
        (one,), _ = read("a.html", f"{head}<p>Zürich – Köln</p>".encode(encoding))
        assert one.text == "Zürich – Köln"


def test_a_page_of_links_alone():
    assert read("a.html", "<body><nav><a href='x'>Rules</a></nav></body>")[0][0].text == "Rules"
