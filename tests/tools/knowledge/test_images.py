"""Pictures of text that the tests draw. The engine is RapidOCR where it is installed, else a script."""

from __future__ import annotations

import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from pypdf import PdfWriter
from tests.tools.knowledge.test_loaders import write_pdf

from ragweave.tools.knowledge import Settings, images
from ragweave.tools.knowledge.loaders import load
from ragweave.tools.knowledge.markup import Loaded, UnreadableError

Image = pytest.importorskip("PIL.Image", reason="needs ragweave[test]")
SETTINGS = Settings(embedding=None)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the engine find these lines, one list a picture."""

    def use(*pages: list[str] | None) -> None:
        left = list(pages)

        class RapidOCR:
            def __init__(self, params: dict[str, str]) -> None:
                assert params

            def __call__(self, pixels: object) -> SimpleNamespace:
                assert pixels.shape[2] == 3  # type: ignore[attr-defined]
                return SimpleNamespace(txts=left.pop(0))

        module = ModuleType("rapidocr")
        module.RapidOCR = RapidOCR  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "rapidocr", module)
        monkeypatch.setattr("ragweave.tools.knowledge.office.find_spec", lambda _name: True)
        images._engine.cache_clear()

    yield use
    images._engine.cache_clear()


def one(path: Path) -> Loaded:
    (loaded,) = load(path, SETTINGS)
    assert isinstance(loaded, Loaded)
    return loaded


def test_lines_and_pages(tmp_path: Path, said: Callable[..., None]) -> None:
    picture = Image.new("L", (40, 20), "white")
    picture.save(tmp_path / "note.png")
    said(["Invoice 7", "Due: 3 May"])
    assert one(tmp_path / "note.png") == Loaded("Invoice 7\nDue: 3 May", "note")
    picture.save(tmp_path / "scan.tif", save_all=True, append_images=[picture])
    said(["First"], ["Second"])
    loaded = one(tmp_path / "scan.tif")
    assert [loaded.page_at(loaded.text.index(word)) for word in ("First", "Second")] == [1, 2]


def test_scanned_pdfs(
    tmp_path: Path, said: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragweave.tools.knowledge.loaders.find_spec", lambda _name: True)
    Image.new("RGB", (40, 20), "white").save(tmp_path / "scan.pdf")
    said(["A letter"])
    assert one(tmp_path / "scan.pdf").text == "A letter"
    said(None)
    with pytest.raises(UnreadableError, match=r"without text$"):
        one(tmp_path / "scan.pdf")


def mixed_pdf(path: Path) -> None:
    """Write a page of text, a scan, a blank page and a scan that is damaged."""
    scan = BytesIO()
    Image.new("RGB", (40, 20), "white").save(scan, "PDF")
    writer = PdfWriter()
    write_pdf(path, ["Printed page"])
    writer.append(path)
    writer.append(scan)
    writer.add_blank_page(300, 300)
    writer.append(scan)
    (picture,) = writer.pages[3]["/Resources"]["/XObject"].values()
    picture.get_object()._data = b"\xff\xd8 no picture"
    writer.write(path)


def test_scanned_pages_among_others(
    tmp_path: Path, said: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mixed.pdf"
    mixed_pdf(path)
    said(["Stamped page"])
    monkeypatch.setattr("ragweave.tools.knowledge.loaders.find_spec", lambda _name: True)
    loaded = one(path)
    assert [loaded.page_at(loaded.text.index(word)) for word in ("Printed", "Stamped")] == [1, 2]
    assert len(loaded.pages) == 4
    monkeypatch.setattr("ragweave.tools.knowledge.loaders.find_spec", lambda _name: None)
    assert one(path).text.strip() == "Printed page"


def test_pictures_that_cannot_be_read(
    tmp_path: Path, said: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(b"no picture")
    said()
    with pytest.raises(UnreadableError, match=r"damaged \.png file"):
        one(path)
    Image.new("L", (40, 20)).save(path)
    said(None)
    with pytest.raises(UnreadableError, match="a picture without text"):
        one(path)
    monkeypatch.setattr(images, "_MOST_PIXELS", 10)
    with pytest.raises(UnreadableError, match="megapixels"):
        one(path)
    monkeypatch.setattr("ragweave.tools.knowledge.office.find_spec", lambda _name: None)
    with pytest.raises(UnreadableError, match=r"Reading .png files needs an extra: .*ragweave.ocr"):
        one(path)


def test_a_drawn_page_is_read(tmp_path: Path) -> None:
    pytest.importorskip("rapidocr", reason="needs ragweave[ocr]")
    from PIL import ImageDraw, ImageFont

    page = Image.new("RGB", (700, 160), "white")
    font = ImageFont.load_default(size=40)
    ImageDraw.Draw(page).text((20, 40), "Total due: 1,250 EUR", fill="black", font=font)
    page.save(tmp_path / "invoice.png")
    assert one(tmp_path / "invoice.png").text == "Total due: 1,250 EUR"
