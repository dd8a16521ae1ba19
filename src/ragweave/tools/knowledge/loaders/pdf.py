"""PDF, page by page: text, form fields and notes. A line names the pages that cannot be read.

Text in scans and pictures is recognised by RapidOCR. Its wheel contains its models, so it needs no network.
"""

from __future__ import annotations

import io
import logging
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from typing import Any

from ragweave.errors import MissingExtraError
from ragweave.tools.knowledge.loaders.text import paged
from ragweave.tools.knowledge.passages import Loaded, UnreadableError
from ragweave.tools.knowledge.settings import Settings

_FEW_LETTERS = 200
"""Letters on a page up to which they may be a stamp or header over a scan."""
_SCAN = 0.4
"""Share of the page that a picture covers from which it may be a scan."""
_GLYPHS = re.compile(r"/[A-Za-z]{1,3}[0-9A-F]{1,4}(?=/|\s|$)")
"""Names of glyphs, which pypdf gives where a font does not say what they stand for."""
_ROWS = 5
"""Fewest lines of a column."""
_SHORT = 20
"""Characters of a line that may be a table's."""
_GAP = re.compile(r"(?<=\S)( {3,})(?=\S)")
_PICTURE = "a picture that was not read"
_UNMAPPED = "text that cannot be read, as its font maps no letters"
_DPI = 150
_LONGEST_SIDE = 4000
"""Pixels of a rendered page."""
_LOCK = threading.Lock()
"""Neither RapidOCR nor PDFium is thread-safe."""
_NEED_OCR = ' (to recognise it: pip install "ragweave[ocr]")'


def load_pdf(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load the text of a PDF with the offset at which each page begins."""
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    reader = pypdf.PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise UnreadableError("PDF with a password")
    texts: list[str] = []
    troubles: dict[str, list[int]] = defaultdict(list)
    for number in range(len(reader.pages)):
        try:
            text, trouble = _page(reader.pages[number], data, number)
        except Exception as error:  # noqa: BLE001 - whatever pypdf meets; the other pages can be read
            text, trouble = "", f"damaged ({' '.join(str(error).split())[:100]})"
        texts.append(text)
        if trouble:
            troubles[trouble].append(number + 1)
    notes = [f"{_named(on)}: {what}" for what, on in troubles.items()]
    if not any(text.strip() for text in texts):
        raise UnreadableError(": ".join(filter(None, ["PDF without text", "; ".join(notes)])))
    yield from notes
    with suppress(Exception):  # a broken title: the pages can be read
        name = " ".join(str(reader.metadata["/Title"]).split()) or name  # type: ignore[index]
    yield paged(texts, name)


def _page(page: Any, data: bytes, index: int) -> tuple[str, str]:
    """Return the text of a page, with fields and notes at the end, and what could not be read."""
    text, covered = _drawn(page)
    more: list[str] = []
    for one in page.get("/Annots") or ():
        with suppress(Exception):  # the others can be read
            more += _annotation(one.get_object())
    lines = [] if _all_unmapped(page) else [one for one in text.split("\n") if not _is_garbage(one)]
    trouble = ""
    if text.strip() and len(lines) < text.count("\n") + 1:
        text, trouble = "\n".join(lines), _UNMAPPED
    elif (
        sum(map(str.isalnum, text)) <= _FEW_LETTERS
        if covered >= _SCAN
        else not text.strip() and not more and len(getattr(page.get_contents(), "get_data", bytes)()) > 20
    ):
        trouble = _PICTURE
    if trouble and available():
        found = recognised_page(data, index)
        text, trouble = found or text, "" if found else "nothing that can be recognised"
    elif trouble:
        trouble += _NEED_OCR
    return "\n".join(filter(None, [text, *more])), trouble


def _drawn(page: Any) -> tuple[str, float]:
    """Return the text that a page draws, and the share of the page that its largest picture covers."""
    covered = 0.0
    starts: Counter[int] = Counter()  # where lines begin beyond the left column, in points
    width, height = float(page.mediabox.width) or 1, float(page.mediabox.height) or 1

    def visit(operator: bytes, operands: Any, matrix: Any, text_matrix: Any) -> None:
        nonlocal covered
        if operator == b"Do":
            with suppress(KeyError, IndexError, TypeError, AttributeError):  # a drawing that the page lacks
                if page["/Resources"]["/XObject"][operands[0]]["/Subtype"] == "/Image":
                    area = abs(matrix[0] * matrix[3] - matrix[1] * matrix[2])
                    covered = max(covered, area / (width * height))
        elif operator in (b"Tj", b"TJ") and text_matrix[4] > 0.4 * width:
            starts[round(text_matrix[4])] += 1

    text = page.extract_text(visitor_operand_before=visit) or ""
    if max(starts.values(), default=0) >= _ROWS:
        with suppress(Exception):  # of the layout: the text is there, if in the file's order
            text = _column_by_column(page) or text
    return text, covered


def _column_by_column(page: Any) -> str:
    """Return a page's text, the left column before the right one; "" if it has no two columns of prose.

    Lines of both have a gap at the same place in pypdf's layout, and long texts on both sides; in a
    table they are short.
    """
    lines = [line for line in page.extract_text(extraction_mode="layout").split("\n") if line.strip()]
    gaps = [gap for line in lines if len(gap := _GAP.split(line)) == 3]
    edges = Counter(len(left) + len(blank) for left, blank, _ in gaps)
    edge, often = edges.most_common(1)[0] if edges else (0, 0)
    long = [left for left, _, right in gaps if min(len(left.strip()), len(right)) >= _SHORT]
    if often < _ROWS or len(long) < 0.7 * len(gaps):
        return ""
    found: list[str] = []
    right: list[str] = []
    for line in lines:
        if line[edge - 2 : edge].strip():  # it crosses both columns
            found, right = [*found, *right, line], []
        else:
            found.append(line[:edge])
            right.append(line[edge:])
    return "\n".join(filter(None, (" ".join(line.split()) for line in found + right)))


def _is_garbage(text: str) -> bool:
    """Return whether a line consists of glyph names or private-use characters."""
    glyphs = sum(len(one.group()) for one in _GLYPHS.finditer(text))
    own = sum("\ue000" <= one <= "\uf8ff" or one == "\ufffd" for one in text)
    return own + glyphs > max(0.3 * len("".join(text.split())), 3)


def _all_unmapped(page: Any) -> bool:
    """Return whether no font of a page says which letters its glyphs stand for."""

    def unmapped(font: Any) -> bool:
        if font.get("/Subtype") != "/Type0" or "/ToUnicode" in font:
            return False
        inner = font["/DescendantFonts"].get_object()[0].get_object()
        order = (inner.get("/CIDSystemInfo") or {}).get("/Ordering", "Identity")
        return str(font.get("/Encoding")).startswith("/Identity") and str(order) == "Identity"

    fonts = (page.get("/Resources") or {}).get("/Font")
    fonts = [one.get_object() for one in (fonts.get_object() if fonts else {}).values()]
    return bool(fonts) and all(map(unmapped, fonts))


def _annotation(one: Any) -> Iterator[str]:
    """Yield a note written on a page, or the value of a form field, as `name: value`."""
    if one.get("/Subtype") == "/FreeText" and one.get("/Contents"):
        yield str(one["/Contents"])
    if one.get("/Subtype") != "/Widget":
        return
    value, kind, name = (one.get_inherited(key) for key in ("/V", "/FT", "/T"))
    name = str(one.get_inherited("/TU") or name or "")
    if kind == "/Btn":
        on = str(one.get("/AS") or value or "/Off")
        if on != "/Off" and name:
            yield f"{name}: {'yes' if on.lower() in ('/yes', '/on', '/1') else on[1:]}"
        return
    if hasattr(value, "get_data"):  # a long text is stored as a stream
        value = value.get_data().decode("utf-8", "replace")
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
    if shown:
        yield f"{name}: {shown}" if name else shown


def _named(pages: list[int]) -> str:
    more = f" and {len(pages) - 9} more" if len(pages) > 9 else ""
    return f"page{'s'[: len(pages) > 1]} {', '.join(map(str, pages[:9]))}{more}"


def available() -> bool:
    """Return whether the packages of the extra `ocr` are installed."""
    return find_spec("rapidocr") is not None and find_spec("pypdfium2") is not None


def load_image(name: str, data: bytes, _settings: Settings) -> Iterator[Loaded | str]:
    """Load the text that a picture shows; each frame of a TIFF is a page."""
    if not available():
        raise UnreadableError(str(MissingExtraError("Reading pictures", "ocr")))
    from PIL import Image, ImageSequence

    pages: list[str] = []
    with Image.open(io.BytesIO(data)) as image:
        try:
            pages.extend(recognised(frame) for frame in ImageSequence.Iterator(image))
        except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises on a broken frame
            yield f"damaged from picture {len(pages) + 1} on ({error})"
    if not any(pages):
        raise UnreadableError("a picture without text")
    yield paged(pages, name) if pages[1:] else Loaded(pages[0], name)


def recognised(image: Any) -> str:
    """Return the lines of text that a PIL image shows."""
    import numpy as np

    pixels = np.asarray(image.convert("RGB"))[:, :, ::-1]  # OpenCV's order: blue, green, red
    with _LOCK:
        found = _engine()(pixels)
    return "\n".join(found.txts or ())


def recognised_page(data: bytes, index: int) -> str:
    """Return the text that a page of a PDF shows, however it is drawn; `index` counts from 0."""
    import pypdfium2

    with _LOCK:
        document = pypdfium2.PdfDocument(data)
        try:
            page = document[index]
            scale = min(_DPI / 72, _LONGEST_SIDE / max(*page.get_size(), 1))
            image = page.render(scale=scale).to_pil()
        finally:
            document.close()
    return recognised(image)


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "error"})
