"""Word, PowerPoint and EPUB files that the tests write, good and bad."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from ragweave.tools.knowledge import KnowledgeBase, Settings
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.markup import Loaded

SETTINGS = Settings(embedding=None)
CONTAINER = """<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
<rootfile full-path="book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
OPF = """<package xmlns="http://www.idpf.org/2007/opf"><metadata
 xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>The Lighthouse</dc:title></metadata><manifest>
<item id="a" href="a.xhtml" media-type="application/xhtml+xml"/></manifest>
<spine><itemref idref="a"/></spine></package>"""
CHAPTER = "<h1>The storm</h1><p>The keeper lit the lamp.</p>"


def one(path: Path) -> Loaded:
    (loaded,) = load(path, SETTINGS)
    assert isinstance(loaded, Loaded)
    return loaded


def path_at(loaded: Loaded, word: str) -> list[str]:
    return loaded.heading_path(loaded.text.index(word))


def write_docx(path: Path) -> None:
    docx = pytest.importorskip("docx", reason="needs ragweave[test]")
    document = docx.Document()
    document.core_properties.title = "Staff & handbook"
    document.add_heading("Leave", 1)
    document.add_paragraph("Everyone has 28 days.")
    document.add_heading("Carry over", 2)
    document.add_paragraph("Five days move on.")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "Grade A", "30 days"
    document.save(path)


def test_word_has_headings_tables_and_a_title(tmp_path: Path) -> None:
    pytest.importorskip("markitdown", reason="needs ragweave[documents]")
    path = tmp_path / "handbook.docx"
    write_docx(path)
    loaded = one(path)
    assert loaded.title == "Staff & handbook"
    assert path_at(loaded, "Everyone") == ["Leave"]
    assert path_at(loaded, "Five") == ["Leave", "Carry over"]
    assert "| Grade A | 30 days |" in loaded.text


def test_slides_are_pages(tmp_path: Path) -> None:
    pytest.importorskip("markitdown", reason="needs ragweave[documents]")
    pptx = pytest.importorskip("pptx", reason="needs ragweave[documents]")
    deck = pptx.Presentation()
    for title, text in (("Results", "Revenue grew."), ("Outlook", "We go to Porto.")):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, text
    slide.notes_slide.notes_text_frame.text = "Mention the lease."
    path = tmp_path / "deck.pptx"
    deck.save(path)
    loaded = one(path)
    assert loaded.title == "deck"
    pages = [loaded.page_at(loaded.text.index(word)) for word in ("Revenue", "Porto", "lease")]
    assert pages == [1, 2, 2]
    assert path_at(loaded, "Porto") == ["Outlook"]
    assert "Slide number" not in loaded.text


def write_book(path: Path, chapter: str) -> None:
    with zipfile.ZipFile(path, "w") as book:
        for name, text in (
            ("mimetype", "application/epub+zip"),
            ("META-INF/container.xml", CONTAINER),
            ("book.opf", OPF),
            ("a.xhtml", f"<html><body>{chapter}</body></html>"),
        ):
            book.writestr(name, text)


def test_books_by_chapter(tmp_path: Path) -> None:
    pytest.importorskip("markitdown", reason="needs ragweave[documents]")
    path = tmp_path / "b.epub"
    write_book(path, CHAPTER)
    packed = tmp_path / "c.epub.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    loaded = one(path)
    assert loaded == one(packed)
    assert loaded.title == "The Lighthouse"
    assert path_at(loaded, "keeper") == ["The storm"]


def test_signs_of_word_and_books_are_not_escaped(tmp_path: Path) -> None:
    pytest.importorskip("markitdown", reason="needs ragweave[documents]")
    docx = pytest.importorskip("docx", reason="needs ragweave[test]")
    document = docx.Document()
    document.add_heading("The MAX_SIZE", 1)
    document.add_paragraph("MAX_SIZE_LIMIT is 2*3*4, in C:\\_new.")
    document.save(tmp_path / "a.docx")
    loaded = one(tmp_path / "a.docx")
    assert loaded.title == "The MAX_SIZE"
    assert "MAX_SIZE_LIMIT is 2*3*4, in C:\\_new." in loaded.text
    write_book(tmp_path / "b.epub", "<p>MAX_SIZE is 2*3.</p><pre>a\\_b</pre>")
    text = one(tmp_path / "b.epub").text
    assert "MAX_SIZE is 2*3." in text and "a\\_b" in text


def zipped(path: Path, content: bytes, name: str = "word/document.xml") -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr(name, content)


def test_what_cannot_be_read_is_one_line_and_the_rest_is_indexed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("markitdown", reason="needs ragweave[documents]")
    docs = tmp_path / "docs"
    docs.mkdir()
    write_docx(docs / "good.docx")
    (docs / "cut.docx").write_bytes((docs / "good.docx").read_bytes()[:4000])
    (docs / "locked.pptx").write_bytes(b"\xd0\xcf\x11\xe0" + bytes(600))
    (docs / "none.epub").write_bytes(b"")
    zipped(docs / "other.docx", b"<w/>", "content.xml")
    zipped(docs / "bomb.docx", bytes(2**27))
    zipped(docs / "drm.epub", b"<r/>", "META-INF/rights.xml")
    with zipfile.ZipFile(docs / "many.pptx", "w") as package:
        for number in range(10_001):
            package.writestr(str(number), b"")
    with KnowledgeBase.create(tmp_path / "kb", settings=SETTINGS) as kb:
        report = kb.index_paths([docs])
    assert report.added == 1
    said = {Path(skip.path).name: skip.reason for skip in report.skipped}
    assert said.keys() == {one.name for one in docs.iterdir()} - {"good.docx"}
    for name, reason in {
        "cut.docx": "damaged .docx file (",
        "locked.pptx": "encrypted, or of an Office before 2007",
        "none.epub": "damaged .epub file",
        "other.docx": "damaged .docx file",
        "bomb.docx": "unpacks to 128 MiB in 1 parts",
        "drm.epub": "encrypted",
        "many.pptx": "in 10001 parts",
    }.items():
        assert said[name].startswith(reason) or reason in said[name], said[name]
        assert "\n" not in said[name]


def test_without_the_extra_each_file_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragweave.tools.knowledge.office.find_spec", lambda _name: None)
    for name in ("a.docx", "b.pptx", "c.epub", "d.txt"):
        (tmp_path / name).write_text("text")
    with KnowledgeBase.create(tmp_path / "kb", settings=SETTINGS) as kb:
        report = kb.index_paths([tmp_path])
    assert report.added == 1
    assert [skip.reason for skip in report.skipped] == [
        f'Reading {suffix} files needs an extra: pip install "ragweave[documents]"'
        for suffix in (".docx", ".pptx", ".epub")
    ]
