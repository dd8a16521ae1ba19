import pytest
from tests.tools.knowledge.loaders.made import read

PAGE = """<html><head><title>Winch</title></head><body><nav>Menu</nav><div class="cookie-bar">Accept</div>
<main><h1>Use<a href="#use">#</a></h1><aside>Stand clear.</aside><figure><img alt="A red lever" src="x">
<figcaption>Load 12 t.</figcaption></figure><p>Starts <time>3 May</time>, at 10<sup>3</sup> m on the
3<sup>rd</sup>.</p><table><tr><th>A</th></tr><tr><td><a href="x">b</a></td></tr></table>
<pre><code>crane --lift
  now</code></pre><ol start="4"><li>Open.</li></ol><ol type="a"><li>Oil.</li><li>Belt.</li></ol>
<p hidden>Draft</p></main><footer>Imprint</footer></body></html>"""


def test_what_readers_see_is_kept():
    (page,), _ = read("a.html", PAGE)
    for text in (
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
        assert text in page.text
    for text in ("Menu", "Accept", "Imprint", "Draft", "Winch"):
        assert text not in page.text
    assert (page.title, page.headings[0].text) == ("Winch", "Use")
    assert page.text[page.tables[0].body :].startswith("| b |")


def test_a_wrapper_of_the_content_stays():
    sides = "<div class='sidebar'>Recent posts</div>"
    (page,), _ = read("a.html", f"<body><div class='has-sidebar'><p>The ferry leaves at ten.</p>{sides}</div></body>")
    assert page.text == "The ferry leaves at ten."


BANNER = '<div id="cookie-banner"><h2>Cookies</h2><p>We use cookies.</p></div><div class="share">Share it</div>'
FILL = "<p>The handbook is revised each spring, by the office.</p>" * 4


@pytest.mark.parametrize("tag", ["main", "article", "div role='main'", "div"])
def test_sections_called_like_banners_are_kept(tag):
    sections = "".join(
        f'<section id="{title.lower().replace(" ", "-")}"><h2>{title}</h2><p>It is {number}.</p></section>'
        for number, title in enumerate(
            ("Cookie Objects", "Share plan", "How do I share it", "Social security", "Consent")
        )
    )
    (doc,), _ = read("a.html", f"<body>{BANNER}<{tag}><h1>Staff</h1>{FILL}{sections}</{tag.split()[0]}></body>")
    assert [f"It is {number}." in doc.text for number in range(5)] == [True] * 5
    assert "We use" not in doc.text and "Share it" not in doc.text


def test_within_the_content_a_name_says_nothing_unless_it_is_of_links():
    inside = (
        '<aside class="sidebar">Mind the sill.</aside><h2 id="cookies">Cookies</h2><p class="share">Shares vest.</p>'
        '<ul class="breadcrumbs"><li><a href="/">Home</a></li></ul><div class="social">On <a href="x">Friendface</a></div>'
    )
    (doc,), _ = read("a.html", f"<main>{FILL}{inside}</main>")
    assert all(text in doc.text for text in ("Mind the sill.", "## Cookies", "Shares vest."))
    assert "Home" not in doc.text and "Friendface" not in doc.text


def test_buttons_that_name_a_section_or_column_are_read():
    parts = (
        "<h2><button>How long?</button></h2><p>Ninety minutes.</p><dl><dt><button>Fee</button></dt><dd>Two euro.</dd></dl>"
        "<h2>Rules <button>Copy link</button></h2><details><summary><button>More</button></summary>At sea.</details>"
        "<table><tr><th><button>Hall</button></th></tr><tr><td>North</td></tr></table><button>Send</button>"
    )
    (doc,), _ = read("a.html", f"<main>{parts}</main>")
    assert "## How long?\n\nNinety minutes." in doc.text and "## Rules\n" in doc.text
    assert all(text in doc.text for text in ("Fee", "More", "| Hall |"))
    assert "Copy" not in doc.text and "Send" not in doc.text


def test_sections_that_a_click_shows_are_read():
    parts = (
        '<div role="tabpanel" hidden>On Linux.</div><p hidden="until-found">On a Mac.</p><button aria-controls="p m d">+</button>'
        '<div id="p" aria-hidden="true">On Windows.</div><ul id="m" hidden><li><a href="x">Menu</a></li></ul>'
        '<div id="d" role="dialog" hidden>Sign in.</div><p hidden>Draft.</p>'
    )
    (doc,), _ = read("a.html", f"<main>{FILL}{parts}</main>")
    assert all(text in doc.text for text in ("On Linux.", "On a Mac.", "On Windows."))
    assert not any(text in doc.text for text in ("Menu", "Sign in", "Draft"))


def test_blocks_stand_apart():
    for tag in ("aside", "details", "summary", "figure", "address", "header", "form", "label", "fieldset", "main"):
        (page,), _ = read("a.html", f"<body><p>First.</p><{tag}>alpha</{tag}><{tag}>beta</{tag}>gamma</body>")
        assert page.text.split() == ["First.", "alpha", "beta", "gamma"]


def test_tables_with_captions_spans_and_two_header_rows():
    head = "<tr><th rowspan=2>Hall</th><th colspan=2>2025</th></tr><tr><th>Day</th><th>Hours</th></tr>"
    body = "<tr><td rowspan=2>North</td><td>Mon</td><td>9 to 17</td></tr><tr><td>Tue</td><td>10 to 14</td></tr>"
    (page,), _ = read("a.html", f"<table><caption>Opening</caption><col><thead>{head}</thead><tr>{body}</table>")
    lines = page.text.splitlines()
    assert lines[:3] == ["Opening", "", "| Hall | 2025 Day | 2025 Hours |"]
    assert lines[-2:] == ["| North | Mon | 9 to 17 |", "| North | Tue | 10 to 14 |"]
    (page,), _ = read("a.html", f"<table><caption>Opening</caption><tr><td>Hall<td>Day<td>Hours</tr>{body}</table>")
    assert page.text[page.tables[0].body :].startswith("| North")


def test_tables_for_layout_are_blocks():
    prices = "<table><tr><td>Tea<td>2</tr><tbody><tr><td>Milk<td>1</tr></tbody><tfoot><tr><td>Both<td>3</tfoot></table>"
    source = (
        f"<table><tbody><tr><td><p>Menu.</p><p>Today.</p></td><td><h2>Prices</h2>{prices}</td></tr></tbody></table>"
    )
    (page,), _ = read("a.html", source)
    assert page.text.split("\n\n") == [
        "Menu.",
        "Today.",
        "## Prices",
        "| Tea | 2 |\n| --- | --- |\n| Milk | 1 |\n| Both | 3 |",
    ]


def test_formulas():
    half, square = "<mfrac><mn>1</mn><mn>2</mn></mfrac>", "<msup><mi>c</mi><mrow><mn>2</mn></mrow></msup>"
    assert read("a.html", f"<p><math>{half}<mi>m</mi>{square}</math></p>")[0][0].text == "1/2mc^2"
    total = "<mrow><mi>b</mi><mo>+</mo><mi>c</mi></mrow>"
    root, power = f"<msqrt>{total}</msqrt>", "<msup><mi>r</mi><mrow><mo>−</mo><mn>2</mn></mrow></msup>"
    page = f"<math><mfrac><mi>a</mi>{total}</mfrac><mo>+</mo><mfrac>{total}<mi>d</mi></mfrac>{root}{power}</math>"
    assert read("a.html", page)[0][0].text == "a/(b+c)+(b+c)/d√(b+c)r^(−2)"


def test_encodings_of_pages():
    for head, encoding in [('<meta charset="iso-8859-1">', "cp1252"), ("", "utf-8"), ("", "cp1252")]:
        (page,), _ = read("a.html", f"{head}<p>Zürich – Köln</p>".encode(encoding))
        assert page.text == "Zürich – Köln"
    for encoding, text in [
        ("iso-8859-2", "Příliš žluťoučký kůň"),
        ("windows-1251", "Карта"),
        ("shift_jis", "地図"),
        ("gb2312", "地图在这里"),
    ]:
        (page,), notices = read("a.html", f'<meta charset="{encoding}"><p>{text}</p>'.encode(encoding))
        assert (page.text, notices) == (text, "")


def test_pages_of_links_alone_and_without_text():
    for page in ("", " \n", "<!-- Draft -->"):
        assert read("a.html", page) == ([], "")
    assert read("a.html", "<body><nav><a href='x'>Rules</a></nav></body>")[0][0].text == "Rules"
