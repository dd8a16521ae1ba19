"""Loaders on real files, good and bad."""

from __future__ import annotations

import gzip
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PageObject, PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from ragweave.tools.knowledge import Settings, Skip
from ragweave.tools.knowledge.loaders import files_under, load
from ragweave.tools.knowledge.markup import Heading, Loaded, UnreadableError

SETTINGS = Settings(embedding=None, html="page")


def one(path: Path) -> Loaded:
    (loaded,) = load(path, SETTINGS)
    assert isinstance(loaded, Loaded)
    return loaded


def write_pdf(path: Path, pages: list[str], title: str | None = None, password: str = "") -> None:
    writer = PdfWriter()
    for text in pages:
        page = writer.add_blank_page(300, 300)
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        font = DictionaryObject(
            {
                NameObject("/Type"): NameObject("/Font"),
                NameObject("/Subtype"): NameObject("/Type1"),
                NameObject("/BaseFont"): NameObject("/Helvetica"),
            }
        )
        fonts = DictionaryObject({NameObject("/F1"): writer._add_object(font)})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(stream)
    if title is not None:
        writer.add_metadata({"/Title": title})
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    with path.open("wb") as file:
        writer.write(file)


def test_text_in_utf8_with_mark_utf16_and_packed(tmp_path: Path) -> None:
    for name, data in {
        "a.txt": "Grüße".encode(),
        "b.txt": "Grüße".encode("utf-8-sig"),
        "c.txt": "Grüße".encode("utf-16"),
        "d.txt.gz": gzip.compress("Grüße".encode()),
        "README": "Grüße".encode(),
    }.items():
        (tmp_path / name).write_bytes(data)
        loaded = one(tmp_path / name)
        assert (loaded.text, loaded.title) == ("Grüße", name.split(".")[0])


def test_texts_of_any_script_with_a_stray_control_are_no_binary(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    for text in (
        "漢字かな交じり文",
        "שלום עולם",
        "नमस्ते दुनिया",
        "\x1b[1mlog\x1b[0m " + "words " * 20,
        "a\f\tb\r\n",
    ):
        for encoding in ("utf-8", "utf-16"):
            path.write_bytes(text.encode(encoding))
            assert one(path).text == text


@pytest.mark.parametrize(
    ("text", "title", "left"),
    [
        ("# Whales #\n\ntext", "Whales", "          \n\ntext"),
        ("# Only a heading\n", "Only a heading", "# Only a heading\n"),
        ("```\n# no\n```\n## Yes", "Yes", "```\n# no\n```\n## Yes"),
        ("Under line\n=====\ntext", "Under line", "Under line\n=====\ntext"),
        ("text\n\n---\n\ntext", "page", "text\n\n---\n\ntext"),
        ("no heading", "page", "no heading"),
        ("# Learning C#\n\ntext", "Learning C#", "             \n\ntext"),
        ("<!--\n# Draft\n-->\ntext", "page", "<!--\n# Draft\n-->\ntext"),
    ],
)
def test_markdown_title(tmp_path: Path, text: str, title: str, left: str) -> None:
    path = tmp_path / "page.md"
    path.write_text(text)
    assert (one(path).text, one(path).title) == (left, title)
    assert len(left) == len(text)


def test_html_gives_what_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_bytes(
        b"<html><head><meta charset='latin-1'><title>A\n title</title><style>p{}</style></head>"
        b"<body><h1>Head</h1><script>bad()</script><p>w<b>or</b>d caf\xe9</p><td>x</td><td>y</td>"
    )
    assert one(path) == Loaded(
        "Head\nword café\nx\ny", "A title", headings=(Heading(0, 4, 1, "Head"),)
    )
    path.write_text("<p>Only</p><h1>Heading</h1>")
    assert one(path).title == "Heading"


@pytest.mark.parametrize(
    ("html", "text", "title"),
    [
        ("<title>T</title><p>one<p>two", "one\ntwo", "T"),
        ("<html><head><title>T</title><body>seen", "seen", "T"),
        ("<head><meta charset=utf-8><title>T</title><p>seen", "seen", "T"),
        ("<title> </title><h1>A <i>b</i></h1><h1>Other</h1>", "A b\nOther", "A b"),
        ("<svg><title>icon</title></svg>y", "y", "x"),
        ("<svg><title>icon</title></svg><h1>Head</h1>y", "Head\ny", "Head"),
        ("<h1>R<sup>2</sup></h1>y<sup><style>p{}</style>3<p>z", "R^2\ny^3\nz", "R^2"),
        ("<svg><title>icon</title></svg><title>T</title>y", "y", "T"),
        ("<details><summary>Why</summary>Because</details>", "Why\nBecause", "x"),
        ("<select><optgroup><option>a<option>b</select>", "a\nb", "x"),
        ("<form>a</form><form>b<fieldset><legend>c</legend>d</form>", "a\nb\nc\nd", "x"),
        ("a<center>b</center>c<dialog>d</dialog>e<menu>f</menu>g", "a\nb\nc\nd\ne\nf\ng", "x"),
        ("a<br>b<br/>c<hr>d", "a\nb\nc\nd", "x"),
        ("<div><template>no</div>yes", "yes", "x"),
        ("yes</script></noscript></p> still", "yes\nstill", "x"),
        ("<script>if (a < b) '<p>no</p>'</script>yes<style>p{}</style>", "yes", "x"),
        ("a<!-- no -->b<![CDATA[c]]>d<!DOCTYPE x>", "abcd", "x"),
        ("5 &lt; 6 &amp; caf&eacute; &#xD800;", "5 < 6 & café \ufffd", "x"),
        ("<ul><li>a</li><li>b<ul><li>c</ul></ul>d", "a\nb\nc\nd", "x"),
        ("<x.txt", "<x.txt", "x"),
        (
            "<p>Back within\n14 <b>days\n</b>or\u2028never.</p>\n<p>Yes",
            "Back within 14 days or never.\nYes",
            "x",
        ),
        ("<pre>a = 1\n\nif  a:\n  <b>b\n</b>c</pre>d\ne", "a = 1\nif a:\nb\nc\nd e", "x"),
    ],
)
def test_html_as_people_write_it(tmp_path: Path, html: str, text: str, title: str) -> None:
    path = tmp_path / "x.html"
    path.write_text(html)
    assert (one(path).text, one(path).title) == (text, title)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ('<?xml version="1.0"?><html><script src="a.js"/>yes<script>no</script></html>', "yes"),
        ('<!DOCTYPE html><html xmlns="x"><style href="a"/><p>yes</p><style>no</style>', "yes"),
        ('<html><script src="a.js"/>no</script>yes</html>', "yes"),
        ('<html><script src="a.js"/>yes<script src="b.js"/></html>', "yes"),
    ],
    ids=["xml", "xhtml", "html", "html with nothing to end it"],
)
def test_a_script_that_closes_itself_hides_no_page(tmp_path: Path, page: str, text: str) -> None:
    path = tmp_path / "x.html"
    path.write_text(page)
    assert one(path).text == text


def test_a_heading_of_html_that_its_source_wraps_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text(
        "<h1>Handbook</h1>\n<h2>Refunds and\n    <i>late\r\n</i> returns</h2>"
        "<p>Goods come back within\n14 days.</p>"
    )
    loaded = one(path)
    assert [(head.level, head.text) for head in loaded.headings] == [
        (1, "Handbook"),
        (2, "Refunds and late returns"),
    ]
    assert all(loaded.text[head.start : head.end] == head.text for head in loaded.headings)
    assert loaded.heading_path(loaded.text.index("Goods")) == ["Refunds and late returns"]


def test_a_broken_declaration_in_html_is_passed_over_or_told(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    path.write_text("text <![foo bar> more")
    try:
        assert one(path).text.startswith("text")  # as newer Pythons read it
    except UnreadableError as error:
        assert "broken HTML" in str(error)


def test_html_of_any_length_and_depth(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    words = [f"item {number}" for number in range(20_000)]
    for html in (
        "<ul>" + "".join(f"<li>{word}</li>" for word in words) + "</ul>",
        "".join(f"<p>{word}" for word in words),
        "".join(f"<div>{word}" for word in words) + "</div>" * len(words),
    ):
        path.write_text(html)
        assert one(path).text.split("\n") == words
    path.write_text("<div>" * 100_000 + "deep" + "</div>" * 100_000)
    assert one(path).text == "deep"


def test_pdf_text_title_and_pages(tmp_path: Path) -> None:
    path = tmp_path / "p.pdf"
    write_pdf(path, ["First page", "Second page"], "On pages")
    loaded = one(path)
    assert loaded.title == "On pages"
    assert [loaded.page_at(loaded.text.index(word)) for word in ("First", "Second")] == [1, 2]
    write_pdf(path, ["Text"])
    assert one(path).title == "p"


def test_a_packed_pdf_is_unpacked(tmp_path: Path) -> None:
    write_pdf(tmp_path / "p.pdf", ["First page", "Second page"])
    packed = tmp_path / "Report.PDF.GZ"
    packed.write_bytes(gzip.compress((tmp_path / "p.pdf").read_bytes()))
    loaded = one(packed)
    assert (loaded.title, len(loaded.pages)) == ("Report", 2)
    assert loaded.text == one(tmp_path / "p.pdf").text


def test_rows_keep_ids_titles_fields_and_lines(tmp_path: Path) -> None:
    lines = '{"id": 7, "title": "T", "text": "one", "year": 1999}\n\n{"text": "two"}\n'
    wanted = [
        Loaded("one", "T", "7", {"year": 1999, "line": 1}),
        Loaded("two", "", None, {"line": 3}),
    ]
    (tmp_path / "a.jsonl").write_text(lines)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    assert list(load(tmp_path / "a.jsonl", SETTINGS)) == wanted
    assert list(load(tmp_path / "b.jsonl.gz", SETTINGS)) == wanted
    (tmp_path / "c.csv").write_text('id,text,kind\n1,"two\nlines",k\n,other,\n')
    assert list(load(tmp_path / "c.csv", SETTINGS)) == [
        Loaded("two\nlines", "", "1", {"kind": "k", "line": 3}),
        Loaded("other", "", None, {"line": 4}),
    ]
    (tmp_path / "d.tsv").write_text("_id\tbody\n9\twords\n")
    named = Settings(embedding=None, text_field="body", id_field="_id")
    assert list(load(tmp_path / "d.tsv", named)) == [Loaded("words", "", "9", {"line": 2})]


def test_bad_rows_are_named_by_line_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(
        b'{"text": "good"}\nnot json\n[1]\n{"text": "  "}\n{"text": 3}\n'
        b'{"text": "x", "id": [1]}\n{"text": "caf\xe9"}\n{"text": "last"}\n'
    )
    found = list(load(path, SETTINGS))
    skips = [skip for skip in found if isinstance(skip, Skip)]
    assert [skip.line for skip in skips] == [2, 3, 4, 5, 6, 7]
    assert all(skip.path == str(path) and skip.reason for skip in skips)
    assert [row.text for row in found if isinstance(row, Loaded)] == ["good", "last"]
    (tmp_path / "b.csv").write_text("id,text\n1,good\n2\n3,x,y\n4,last\n")
    found = list(load(tmp_path / "b.csv", SETTINGS))
    assert [skip.line for skip in found if isinstance(skip, Skip)] == [3, 4]
    assert [row.text for row in found if isinstance(row, Loaded)] == ["good", "last"]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "empty"),
        ("a.txt", b" \n\t", "empty"),
        ("a.txt", b"ab\0c", "binary"),
        ("a.txt", b"caf\xe9", r"not UTF-8 text \(byte 3\)"),
        ("a.txt", b"\xff\xfea", "not UTF-16"),
        ("a.txt", b"\xff\xfe\0\1binary\0\0", "binary"),
        ("a.txt", b"\xff\xfe" + bytes(range(256)) * 4, "binary|not UTF-16"),
        ("a.txt", ("letters " + "\ue000\ufffe").encode("utf-16"), "binary"),
        ("a.md", b"\x01\x02\x03 few", "binary"),
        ("a.html", b"\xff\xfe\0\1binary\0\0", "binary"),
        ("a.txt.gz", b"no gzip", "gzip"),
        ("a.txt.gz", gzip.compress(b"x" * 99, mtime=0)[:-9], "end"),
        ("a.txt.gz", gzip.compress(bytes(2**24), mtime=0), "more than 100 times"),
        ("a.csv.gz", gzip.compress(b"a,b\n" * 2**22, mtime=0), "more than 100 times"),
        ("a.html", b"<p>\0", "binary"),
        ("a.html", b"<script>x</script>", "empty"),
        ("a.html", b"", "empty"),
        ("a.pdf", b"%PDF-1.7 nonsense", "damaged PDF"),
        ("a.pdf", b"", "damaged PDF"),
        ("a.pdf.gz", b"no gzip", "gzip"),
        ("a.pdf.gz", gzip.compress(bytes(2**24), mtime=0), "more than 100 times"),
        ("a.pdf.gz", gzip.compress(b"%PDF-1.7 nonsense", mtime=0), "damaged PDF"),
        ("a.exe", b"MZ", "no loader for .exe"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"id,text\n1,caf\xe9\n", "not UTF-8"),
    ],
)
def test_files_without_text_say_why(
    tmp_path: Path, name: str, data: bytes, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragweave.tools.packed.FREE", 2**20)
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnreadableError, match=reason):
        list(load(path, SETTINGS))


def test_scanned_and_locked_pdf(tmp_path: Path) -> None:
    path = tmp_path / "p.pdf"
    write_pdf(path, [""])
    with pytest.raises(UnreadableError, match="without text"):
        list(load(path, SETTINGS))
    write_pdf(path, ["Text"], password="secret")
    with pytest.raises(UnreadableError, match="encrypted"):
        list(load(path, SETTINGS))


@pytest.mark.parametrize("error", [AssertionError(), OverflowError("too large"), EOFError("end")])
def test_whatever_a_broken_pdf_raises_skips_that_file_alone(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pdf(tmp_path / "p.pdf", ["Text"])

    def extract(_page: PageObject) -> str:
        raise error

    monkeypatch.setattr(PageObject, "extract_text", extract)
    said = str(error) or type(error).__name__
    with pytest.raises(UnreadableError, match=rf"damaged PDF \({said}\)"):
        list(load(tmp_path / "p.pdf", SETTINGS))


@given(st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=40))
def test_a_pdf_with_wrong_bytes_is_read_or_damaged(
    tmp_path_factory: pytest.TempPathFactory, wrong: list[tuple[float, int]]
) -> None:
    path = tmp_path_factory.mktemp("wrong") / "p.pdf"
    write_pdf(path, ["One text", "Another"])
    data = bytearray(path.read_bytes())
    for place, byte in wrong:
        data[int(place * len(data))] = byte
    path.write_bytes(data)
    with suppress(UnreadableError):
        list(load(path, SETTINGS))


def test_missing_and_special_files(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="No such file"):
        list(load(tmp_path / "a.txt", SETTINGS))
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(UnreadableError, match="not a regular file"):
        list(load(tmp_path / "pipe.txt", SETTINGS))


def test_folders_are_walked_in_order_without_hidden_ones(tmp_path: Path) -> None:
    for name in ("b/z.txt", "b/a.txt", "a.txt", ".git/x.txt", "b/.hidden.txt", "kb/own.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = files_under(tmp_path, leave_out=tmp_path / "kb")
    names = [path.relative_to(tmp_path).as_posix() for path in found if isinstance(path, Path)]
    assert names == ["a.txt", "b/a.txt", "b/z.txt"]
    assert list(files_under(tmp_path / "a.txt", leave_out=tmp_path)) == [tmp_path / "a.txt"]
